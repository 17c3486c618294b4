"""The pipeline file: what it says, and every mistake of it at once, with its line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot.core.errors import ProgramError, UsageError
from upshot.core.span import Source
from upshot.database.durable.retention import retention_of
from upshot.pipeline.config.config import PipelineConfig, read_config
from upshot.pipeline.config.toml_places import places
from upshot.pipeline.formats import SINKS, SOURCES
from upshot.pipeline.program import compiled_program
from upshot.pipeline.session import spark_packages

WHOLE = """\
[pipeline]
name = "dependencies"
program = "dependencies.dl"
state = "state/"
engine = "local"
memory = "2 GiB"
trigger = "500ms"
packages = ["org.example:thing:1.0"]

[pipeline.spark]
spark.sql.shuffle.partitions = 4
"spark.x.flag" = true

[source.import]
format = "delta"
path = "lake/import"
on_bad_row = "fail"

[source.export]
format = "jdbc"
url = "jdbc:postgresql://db/x"
table = "public.export"
user = "reader"
password_env = "EXPORT_PASSWORD"

[sink.mod_dep]
format = "delta"
path = "/elsewhere/mod_dep"
changes = "lake/mod_dep_changes"
"""


def read(folder: Path, text: str) -> PipelineConfig:
    file = folder / "p.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def mistakes(folder: Path, text: str) -> list[tuple[int, str, str]]:
    """Line, slug and message of each."""
    with pytest.raises(ProgramError) as found:
        read(folder, text)
    return [(d.span.line if d.span else 0, d.slug, d.message) for d in found.value.diagnostics]


def test_the_file_of_actions_is_taken_from_the_folder_of_the_file_too(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE).actions == ""
    text = WHOLE.replace('state = "state/"', 'state = "state/"\nactions = "rules/actions.py"')
    assert read(tmp_path, text).actions == str(tmp_path / "rules" / "actions.py")


def test_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert (config.program, config.state) == (tmp_path / "dependencies.dl", tmp_path / "state")
    assert config.sources["import"].path == str(tmp_path / "lake/import")
    assert (config.sinks["mod_dep"].path, config.sinks["mod_dep"].changes) == (
        "/elsewhere/mod_dep",
        str(tmp_path / "lake/mod_dep_changes"),
    )


def test_every_key_arrives_as_its_type(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert (config.engine, config.memory, config.trigger) == ("local", 2 * 1024**3, 0.5)
    assert config.packages == ("org.example:thing:1.0",)
    assert config.spark == {"spark.sql.shuffle.partitions": "4", "spark.x.flag": "true"}
    assert config.sources["import"].on_bad_row == "fail"
    assert config.sources["import"].options == {"extra_columns": "refuse", "feed": True, "distinct": False}
    assert config.sources["export"].options["password_env"] == "EXPORT_PASSWORD"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", None),
        ("keep = 1000", 1000),
        ('keep = "all"', "all"),
        (
            'keep = { commits = 5, bytes = "1 GiB", age = "7d" }',
            {"commits": 5, "bytes": 1 << 30, "age": timedelta(days=7)},
        ),
        ('keep.age = "12h"', {"age": timedelta(hours=12)}),
    ],
)
def test_how_much_of_the_past_is_kept_is_said_as_to_connect(tmp_path: Path, line: str, wanted: Any) -> None:
    config = read(tmp_path, WHOLE.replace('state = "state/"', f'state = "state/"\n{line}'))
    assert config.keep == wanted
    retention_of(config.keep)


@pytest.mark.parametrize(
    ("line", "slug", "words"),
    [
        ("keep = 0", "bad-value", '`keep` must be a number of commits, "all" or a table of bounds, not 0'),
        ("keep = true", "bad-value", '`keep` must be a number of commits, "all" or a table of bounds, not true'),
        ('keep = "7d"', "bad-value", '`keep` must be a number of commits, "all" or a table of bounds, not "7d"'),
        ("keep = {}", "bad-value", '`keep` must be a number of commits, "all" or a table of bounds, not {}'),
        ("keep = { days = 7 }", "unknown-key", "`[pipeline.keep]` has no key `days`"),
        ('keep = { age = "0d" }', "bad-value", '`age` must be text such as "7d" or "12h", not "0d"'),
        ("keep = { commits = -1 }", "bad-value", "`commits` must be a positive integer, not -1"),
    ],
)
def test_bounds_of_the_past_that_mean_nothing_are_refused(tmp_path: Path, line: str, slug: str, words: str) -> None:
    found = mistakes(tmp_path, WHOLE.replace('state = "state/"', f'state = "state/"\n{line}'))
    assert found == [(5, slug, words)]


def test_all_mistakes_come_at_once_with_their_lines(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        """\
[pipeline]
name = "p"
program = "p.dl"
engin = "auto"
trigger = "soon"

[source.a]
format = "dleta"
path = "a"

[source.b]
format = "csv"
header = "yes"

[source.c]
format = "jdbc"
url = "jdbc:mysql://db"

[sink.v]
format = "parquet"
keep = 0

[snik.w]
""",
    )
    assert [(line, slug) for line, slug, _ in found] == [
        (1, "missing-key"),
        (4, "unknown-key"),
        (5, "bad-value"),
        (8, "bad-value"),
        (11, "missing-key"),
        (13, "bad-value"),
        (15, "missing-key"),
        (17, "bad-value"),
        (19, "missing-key"),
        (21, "bad-value"),
        (23, "unknown-key"),
    ]
    assert found[4][2] == "`[source.b]` needs `path`"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("separator = ';;'", '`separator` must be one character, not ";;"'),
        ('quote = ""', '`quote` must be one character, not ""'),
        ('escape = "\\n"', "`escape` must be one character"),
        ('encoding = "UTF-16"', '`encoding` must be "UTF-8", "ISO-8859-1" or "US-ASCII", not "UTF-16"'),
        ('encoding = "utf-ate"', "`encoding` must be"),
    ],
)
def test_what_csv_files_cannot_be_read_with_is_refused(tmp_path: Path, line: str, words: str) -> None:
    ((number, slug, message),) = mistakes(tmp_path, f'{WHOLE}[source.c]\nformat = "csv"\npath = "c"\n{line}\n')
    assert (number, slug) == (33, "bad-value")
    assert message.startswith(words)


def test_encodings_have_the_names_that_spark_knows(tmp_path: Path) -> None:
    for name, known in (("utf8", "UTF-8"), ("latin-1", "ISO-8859-1"), ("ascii", "US-ASCII")):
        config = read(tmp_path, f'{WHOLE}[source.c]\nformat = "csv"\npath = "c"\nencoding = "{name}"\n')
        assert config.sources["c"].options["encoding"] == known


def test_a_wrong_name_is_answered_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as found:
        read(tmp_path, WHOLE.replace("password_env", "pasword_env"))
    assert found.value.help == "did you mean `password_env`?"
    assert "p.toml:24:1" in str(found.value)


@pytest.mark.parametrize("secret", ["password = 'x'", "password_env = 3"])
def test_a_password_is_never_in_the_file(tmp_path: Path, secret: str) -> None:
    ((_, slug, _),) = mistakes(tmp_path, WHOLE.replace('password_env = "EXPORT_PASSWORD"', secret))
    assert slug in ("unknown-key", "bad-value")


def test_a_text_that_is_no_toml_is_shown_where_it_ends_to_be(tmp_path: Path) -> None:
    assert mistakes(tmp_path, '[pipeline]\nname = "p"\nprogram = \n') == [
        (3, "not-toml", "the pipeline file is not TOML: invalid value")
    ]


def test_a_file_without_sources_or_sinks_is_no_pipeline(tmp_path: Path) -> None:
    found = mistakes(tmp_path, '[pipeline]\nname = "p"\nprogram = "p.dl"\nstate = "s"\n')
    assert [message for _, _, message in found] == ["table `[source.…]` is missing", "table `[sink.…]` is missing"]
    assert [slug for _, slug, _ in mistakes(tmp_path, "")] == ["missing-key"] * 3


def test_sources_that_share_a_folder_know_of_each_other(tmp_path: Path) -> None:
    both = "".join(f'[source.{name}]\nformat = "changes"\npath = "in"\n' for name in ("a", "b"))
    text = f'[pipeline]\nname = "p"\nprogram = "p.dl"\nstate = "s"\n{both}[sink.v]\nformat = "console"\n'
    config = read(tmp_path, text)
    assert [source.options["others"] for source in config.sources.values()] == [("b",), ("a",)]


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml` does not exist"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="is a directory"):
        read_config(tmp_path)


def test_places_are_found_around_strings_comments_and_brackets() -> None:
    text = '''\
a = """
[not.a.table] # nor a comment
b = 1
"""  # [nor.this]
list = [
  "x", # "
  "y",
]
[ t . "u.v" ]
'k' = {inner = 1}
x.y = 2
[[many]]
z = 3'''
    assert {path: span.line for path, span in places(Source("t", text)).items()} == {
        ("a",): 1,
        ("list",): 5,
        ("t",): 9,
        ("t", "u.v"): 9,
        ("t", "u.v", "k"): 10,
        ("t", "u.v", "x"): 11,
        ("t", "u.v", "x", "y"): 11,
        ("many",): 12,
        ("many", "z"): 13,
    }


@pytest.mark.parametrize(("place", "refused"), [("path", True), ("changes", False)])
def test_no_copy_can_follow_a_nervous_view(tmp_path: Path, place: str, refused: bool) -> None:
    (tmp_path / "p.dl").write_text(
        ".decl a(x: number, y: number) .decl v(x: number) v(X) :- a(X, _). "
        ".view v strategy=differencing semantics=nervous"
    )
    text = f"""\
[pipeline]
name = "p"
program = "p.dl"
state = "state/"
[source.a]
format = "parquet"
path = "a"
[sink.v]
format = "parquet"
{place} = "v"
"""
    config = read(tmp_path, text)
    if refused:
        with pytest.raises(UsageError) as caught:
            compiled_program(config)
        assert caught.value.code == "nervous-not-applicable"
    else:
        assert "v" in compiled_program(config).visible


def test_an_iceberg_table_is_refused_by_name_with_the_release_that_will_do(tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as found:
        read(tmp_path, WHOLE.replace('format = "delta"', 'format = "iceberg"', 1))
    (mistake,) = [each for each in found.value.diagnostics if each.slug == "iceberg-not-supported"]
    assert "iceberg-spark-runtime-4.2_2.13" in (mistake.help or "")


def test_locations_may_be_uris_and_files_of_the_program_may_not(tmp_path: Path) -> None:
    text = WHOLE.replace('"lake/import"', '"s3a://lake/import/"').replace(
        'state = "state/"', 'state = "hdfs://host/state"'
    )
    config = read(tmp_path, text)
    assert (str(config.sources["import"].path), str(config.state)) == ("s3a://lake/import", "hdfs://host/state")
    ((_, _, message),) = mistakes(tmp_path, WHOLE.replace('"dependencies.dl"', '"s3a://lake/dependencies.dl"'))
    assert message == '`program` must be a local path, not "s3a://lake/dependencies.dl"'


def test_a_session_gets_the_packages_of_its_formats(tmp_path: Path) -> None:
    thing, delta, postgresql = "org.example:thing:1.0", *(SOURCES[name].packages[0] for name in ("delta", "jdbc"))
    assert spark_packages(read(tmp_path, WHOLE)) == [thing, delta.coordinates, postgresql.coordinates]
    without = WHOLE.replace('trigger = "500ms"', 'delta = "deltalake"')
    assert spark_packages(read(tmp_path, without)) == [thing, postgresql.coordinates]
    table = without + '\n[sink.imports]\nformat = "table"\ntable = "t"\n'
    assert spark_packages(read(tmp_path, table)) == [
        thing,
        postgresql.coordinates,
        SINKS["table"].packages[0].coordinates,
    ]


def test_a_connector_of_kafka_that_the_file_names_is_not_fetched(tmp_path: Path) -> None:
    file = """\
[pipeline]
name = "p"
program = "p.dl"
state = "state/"
[source.a]
format = "kafka"
servers = "broker:9092"
topic = "t"
[sink.v]
format = "console"
"""
    (connector,) = spark_packages(read(tmp_path, file))
    assert connector.startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")
    assert "{" not in connector
    assert spark_packages(read(tmp_path, file + '[pipeline.spark]\n"spark.jars" = "spark-sql-kafka-0-10.jar"\n')) == []
