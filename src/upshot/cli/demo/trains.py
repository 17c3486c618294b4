"""The trains demo, a rail map: lines close and open, and the pairs of stations without a route change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from upshot.cli.demo.story import Story, StoryTransaction, program_text

SUMMARY = "routes between stations, and pairs without a route (recursion and negation)"

_STATES = {
    "California": "San Diego,Los Angeles,Bakersfield,Fresno,San Jose,Oakland,Sacramento,Redding,Truckee,Barstow",
    "Nevada": "Reno,Winnemucca,Elko",
    "Utah": "Salt Lake City,Provo,Green River",
    "Colorado": "Grand Junction,Denver,Pueblo,La Junta",
    "Arizona": "Flagstaff,Tucson,Yuma,Kingman",
    "New Mexico": "Albuquerque,Gallup,Lamy,Deming",
    "Texas": "El Paso,San Antonio,Austin,Fort Worth,Houston",
    "Oregon": "Klamath Falls,Eugene,Salem,Portland",
    "Washington": "Vancouver,Tacoma,Seattle,Everett,Spokane",
    "Idaho": "Sandpoint,Boise",
    "Montana": "Whitefish,Havre,Glasgow",
    "North Dakota": "Williston,Minot,Fargo",
    "Minnesota": "Saint Cloud,Saint Paul,Winona",
    "Illinois": "Chicago,Galesburg,Springfield",
    "Iowa": "Ottumwa,Osceola",
    "Nebraska": "Omaha,Lincoln,McCook",
    "Kansas": "Dodge City,Newton,Topeka",
    "Missouri": "Kansas City,Saint Louis",
    "Hawaii": "Kapolei,Aloha Stadium",
}

_LINES = (
    "Seattle,Tacoma,Vancouver,Portland,Salem,Eugene,Klamath Falls,Redding,Sacramento,Oakland,San Jose,Los Angeles",
    "Los Angeles,San Diego",
    "Oakland,Fresno,Bakersfield",
    "Bakersfield,Los Angeles",
    "Oakland,Sacramento,Truckee,Reno,Winnemucca,Elko,Salt Lake City,Provo,Green River,Grand Junction,Denver",
    "Denver,McCook,Lincoln,Omaha,Osceola,Ottumwa,Galesburg,Chicago",
    "Los Angeles,Barstow,Kingman,Flagstaff,Gallup,Albuquerque,Lamy,La Junta,Dodge City,Newton,Topeka,Kansas City",
    "Kansas City,Galesburg",
    "Kansas City,Saint Louis,Springfield,Chicago",
    "Los Angeles,Yuma,Tucson,Deming,El Paso,San Antonio,Houston",
    "San Antonio,Austin,Fort Worth",
    "Chicago,Winona,Saint Paul,Saint Cloud,Fargo,Minot,Williston,Glasgow,Havre,Whitefish,Sandpoint,Spokane",
    "Spokane,Everett,Seattle",
    "Kapolei,Aloha Stadium",
)


def trains() -> Story:
    stations = [(name, state) for state, names in _STATES.items() for name in names.split(",")]
    tracks = [pair for line in _LINES for pair in _both_ways(line)]
    return Story(
        name="trains",
        summary=SUMMARY,
        opening=(
            f"{len(stations)} stations, {len(tracks)} trains from one station to the next. Which stations reach "
            "California, and which pairs have no route at all? `unconnected` uses negation: it grows when routes "
            "are deleted."
        ),
        program=program_text("trains"),
        facts={"station": stations, "train": tracks},
        steps=tuple(_steps()),
        shows=("unconnected", "reach_cal", "route"),
    )


def _both_ways(line: str) -> list[tuple[str, str]]:
    there = list(pairwise(line.split(",")))
    return there + [(to, start) for start, to in there]


def _steps() -> Iterator[StoryTransaction]:
    austin = [("San Antonio", "Austin"), ("Austin", "San Antonio")]
    desert = [("El Paso", "San Antonio"), ("San Antonio", "El Paso")]
    fresno = [("Oakland", "Fresno"), ("Fresno", "Oakland")]
    boise = [("Boise", "Salt Lake City")]
    yield StoryTransaction(
        "Works between Oakland and Fresno",
        "The valley line is closed, but Fresno is still reachable through Bakersfield: no route is lost.",
        delete={"train": fresno},
    )
    yield StoryTransaction(
        "A washout between El Paso and San Antonio",
        "Texas east of El Paso is cut off. Four stations no longer reach California, and every pair across the gap is "
        "unconnected. On a map this small nearly every route may use the deleted track, so maintenance costs as much "
        "as recomputation.",
        delete={"train": desert},
    )
    yield StoryTransaction(
        "One way out of Boise",
        "A train from Boise to Salt Lake City: Boise now reaches every station, but no station reaches Boise.",
        insert={"train": boise},
    )
    yield StoryTransaction(
        "Repaired, and a little more",
        "One transaction repairs the washout and closes the branch to Austin. Only the net change is reported.",
        insert={"train": desert},
        delete={"train": austin},
    )
    yield StoryTransaction(
        "A new station",
        "Las Vegas opens without a train: it is unconnected to every other station, in both directions.",
        insert={"station": [("Las Vegas", "Nevada")]},
    )
    yield StoryTransaction(
        "Its first train",
        "Trains run between Las Vegas and Barstow in both directions.",
        insert={"train": [("Las Vegas", "Barstow"), ("Barstow", "Las Vegas")]},
    )
