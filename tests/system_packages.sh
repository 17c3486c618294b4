#!/bin/sh
# Java 17 or newer (Spark), a PostgreSQL server (the JDBC source) and Chromium with its driver (the page): installed with apt-get where that is possible and we
# are root, named otherwise. Then the jars of HDFS, S3 and Kafka that fit the installed pyspark, from Maven Central. Without them the suites that need them are skipped and
# say so, so this never fails.

java_is_there() {
    version=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p') || return 1
    [ "${version:-0}" -ge 17 ]
}

postgresql_is_there() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

browser_is_there() {
    command -v chromedriver >/dev/null 2>&1 && { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1
}

jars() {
    if [ -x .venv/bin/python ] && java_is_there; then
        .venv/bin/python -m tests.cluster.jars
        .venv/bin/python -m tests.pipeline.kafka
    else
        echo "missing: jars of HDFS, S3 and Kafka (first \`make setup\`, then \`make system\`); tests on them are skipped" >&2
    fi
}

missing=""
java_is_there || missing="$missing java"
postgresql_is_there || missing="$missing postgresql"
browser_is_there || missing="$missing chromium"
if [ -z "$missing" ]; then
    echo "system packages: Java, PostgreSQL and Chromium are there"
    jars
    exit 0
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    packages=""
    case $missing in *java*)
        for each in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
            if apt-cache show "$each" >/dev/null 2>&1; then packages="$packages $each"; break; fi
        done ;;
    esac
    case $missing in *postgresql*) packages="$packages postgresql" ;; esac
    case $missing in *chromium*) packages="$packages chromium chromium-driver fonts-dejavu-core" ;; esac
    echo "system packages: installing$packages"
    # shellcheck disable=SC2086 - a list of names
    apt-get install -qq -y --no-install-recommends $packages >/dev/null || true
fi

java_is_there || echo "missing: Java 17 or newer (Debian: openjdk-17-jre-headless); everything on Spark is skipped" >&2
postgresql_is_there || echo "missing: a PostgreSQL server (Debian: postgresql); tests of the JDBC source are skipped" >&2
browser_is_there || echo "missing: Chromium and its driver (Debian: chromium chromium-driver); tests of the page are skipped" >&2
jars
exit 0
