"""Time zones of places: cities, countries and zone abbreviations in plain English.

Most names come from the time zone database: the city of every zone, and each country with the zone
that stands first for it. The table adds what people say and the database does not have.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import unicodedata
import zoneinfo

MAX_PLACE_WORDS = 4
"""Words of the longest name: `United States of America`."""

_MORE_NAMES = {
    "Europe/London": "manchester, edinburgh, england, scotland, wales, united kingdom, britain",
    "Europe/Paris": "lyon, marseille",
    "Europe/Berlin": "munich, muenchen, hamburg, frankfurt, cologne, koeln, stuttgart",
    "Europe/Zurich": "geneva, bern, basel",
    "Europe/Amsterdam": "rotterdam, the hague, holland",
    "Europe/Madrid": "barcelona",
    "Europe/Rome": "milan, naples, venice, florence",
    "Europe/Prague": "czechia, czech republic",
    "Europe/Istanbul": "ankara, turkey",
    "Europe/Kyiv": "kiev",
    "Asia/Kolkata": "mumbai, delhi, new delhi, bangalore, bengaluru, chennai, hyderabad, ist",
    "Asia/Shanghai": "beijing, shenzhen, guangzhou, china",
    "Asia/Tokyo": "osaka, kyoto, jst",
    "Asia/Seoul": "south korea, korea, busan",
    "Asia/Ho_Chi_Minh": "hanoi, saigon, ho chi minh city, vietnam",
    "Asia/Makassar": "bali",
    "Asia/Dubai": "abu dhabi, uae",
    "Asia/Jerusalem": "tel aviv",
    "Africa/Johannesburg": "cape town, pretoria",
    "America/New_York": "nyc, new york city, washington, washington dc, washington d c, boston, miami, "
    "atlanta, philadelphia, usa, united states, united states of america, eastern time, est, edt",
    "America/Chicago": "houston, dallas, austin, texas, central time, cst, cdt",
    "America/Denver": "salt lake city, colorado, mountain time, mst, mdt",
    "America/Los_Angeles": "san francisco, san diego, seattle, las vegas, california, pacific time, "
    "pst, pdt",
    "Pacific/Honolulu": "hawaii",
    "America/Toronto": "montreal, ottawa, canada",
    "America/Sao_Paulo": "rio de janeiro, brasilia, brazil",
    "Australia/Sydney": "canberra, australia",
    "Pacific/Auckland": "wellington, new zealand",
    "UTC": "utc, gmt",
}

_CAPITALS_ONLY = {
    "US": "America/New_York",
    "DC": "America/New_York",
    "LA": "America/Los_Angeles",
    "UK": "Europe/London",
    "NZ": "Pacific/Auckland",
}
"""Short forms that are ordinary words, or parts of them, in small letters (`us`, `la`)."""

_NOT_PLACES = frozenset(
    {
        "center", "central", "continental", "east", "eastern", "factory", "general", "greenwich",
        "localtime", "mountain", "north", "pacific", "south", "universal", "vincent", "west", "met",
        "wet", "eet", "hst", "act", "prc", "roc", "rok", "uct", "gb", "nz", "troll", "wake", "virgin",
        "stanley", "christmas", "easter", "resolute", "regina", "davis", "casey", "oral",
    }
)  # fmt: skip
"""Parts of zone names that mean something else in a sentence."""

_ZONE = re.compile(
    r"(?:africa|america|antarctica|arctic|asia|atlantic|australia|etc|europe|indian|pacific)"
    r"/[A-Za-z0-9_+/-]+",
    re.IGNORECASE,
)


def looks_like_zone(text: str) -> bool:
    """Return whether a text has the form of an IANA zone name, such as `Europe/Oslo`."""
    return _ZONE.fullmatch(text) is not None


def zone_of(name: str) -> str | None:
    """Return the IANA zone of a place or of a zone name in any case, `None` if it is unknown."""
    stripped = name.strip().rstrip(".")
    if stripped in _CAPITALS_ONLY:
        return _CAPITALS_ONLY[stripped]
    key = _key(stripped)
    return _zones().get(key) or _zones().get(key.removeprefix("the "))


def find_places(text: str) -> tuple[dict[str, str], str]:
    """Return the places in a text, as written, with their zones, and the text without them.

    The longest name wins (`New York` before `York`), and a possessive counts (`Tokyo's`).
    """
    words = text.split()
    found: dict[str, str] = {}
    rest: list[str] = []
    start = 0
    while start < len(words):
        for length in range(min(MAX_PLACE_WORDS, len(words) - start), 0, -1):
            name = " ".join(words[start : start + length]).strip(",.:")
            name = re.sub(r"['\u2019]s?$", "", name)
            # "Toronto, Canada" is one place; "Tokyo, Paris" are two.
            zone = None if "," in name else zone_of(name)
            if zone is not None:
                found.setdefault(name, zone)
                start += length
                break
        else:
            rest.append(words[start])
            start += 1
    return found, " ".join(rest)


def _key(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return " ".join(re.sub(r"[_,.'\u2019-]", " ", plain).split())


@functools.cache
def _zones() -> dict[str, str]:
    available = zoneinfo.available_timezones()
    zones: dict[str, str] = {}
    for zone in sorted(available):
        zones[_key(zone)] = zone
        city = _key(zone.rpartition("/")[2])
        # `Etc/GMT+5` and the like are five hours behind, not ahead: nobody means them by that.
        if city not in _NOT_PLACES and not re.search(r"\d", city):
            known = zones.get(city)
            if known is None or "/" not in known:
                zones[city] = zone
    # These two tables stand beside the zones in the tzdata package.
    folder = importlib.resources.files("tzdata") / "zoneinfo"
    first_zone: dict[str, str] = {}
    for row in _rows((folder / "zone.tab").read_text("utf-8")):
        first_zone.setdefault(row[0], row[2])
    for code, country in _rows((folder / "iso3166.tab").read_text("utf-8")):
        if first_zone.get(code) in available:
            zones[_key(country.partition("(")[0])] = first_zone[code]
    for zone, names in _MORE_NAMES.items():
        zones.update(dict.fromkeys(names.split(", "), zone))
    return {key: zone for key, zone in zones.items() if key not in _NOT_PLACES}


def _rows(table: str) -> list[list[str]]:
    return [line.split("\t") for line in table.splitlines() if not line.startswith("#")]
