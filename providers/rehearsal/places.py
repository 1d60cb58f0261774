"""Which time zone a place has: cities, countries, states and zone abbreviations in plain English.

Most names come from the time zone database itself: the city part of every zone, and each country
with the one zone that holds, or stands first for, it. The tables below add what people say and the
database does not: cities that share another city's zone, short forms, and zones by their name.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import unicodedata
import zoneinfo
from collections.abc import Sequence

import msgspec

MAX_PLACE_WORDS = 4
"""`Salt Lake City Utah` is four; longer names are not in the tables."""

_CITIES = {
    "Europe/London": "birmingham, manchester, liverpool, leeds, glasgow, edinburgh, cardiff, "
    "bristol, oxford, cambridge, england, scotland, wales, united kingdom, great britain, britain, bst",
    "Europe/Dublin": "cork, galway, limerick",
    "Europe/Paris": "lyon, marseille, nice, toulouse, bordeaux, lille, strasbourg, nantes",
    "Europe/Berlin": "munich, muenchen, hamburg, frankfurt, cologne, koln, koeln, stuttgart, "
    "dusseldorf, duesseldorf, leipzig, dresden, hanover, hannover, nuremberg, bremen, bonn",
    "Europe/Zurich": "geneva, bern, basel, lausanne, zuerich",
    "Europe/Vienna": "salzburg, graz, innsbruck, linz",
    "Europe/Amsterdam": "rotterdam, the hague, utrecht, eindhoven, holland",
    "Europe/Brussels": "antwerp, ghent, bruges, cet, cest, central european time",
    "Europe/Madrid": "barcelona, valencia, seville, bilbao, malaga",
    "Europe/Rome": "milan, naples, turin, florence, venice, bologna",
    "Europe/Lisbon": "porto",
    "Europe/Warsaw": "krakow, cracow, gdansk, wroclaw, poznan",
    "Europe/Prague": "brno, czechia, czech republic",
    "Europe/Athens": "thessaloniki",
    "Europe/Stockholm": "gothenburg, malmo",
    "Europe/Oslo": "bergen, trondheim",
    "Europe/Copenhagen": "aarhus",
    "Europe/Helsinki": "tampere, espoo",
    "Europe/Istanbul": "ankara, izmir, turkey, turkiye",
    "Europe/Kyiv": "kiev, lviv, odesa, odessa, kharkiv, ukraine",
    "Europe/Moscow": "saint petersburg, st petersburg, petersburg, sochi, kazan, russia",
    "Asia/Kolkata": "mumbai, bombay, delhi, new delhi, bangalore, bengaluru, chennai, madras, "
    "hyderabad, pune, ahmedabad, jaipur, calcutta, india, ist",
    "Asia/Shanghai": "beijing, peking, shenzhen, guangzhou, canton, chengdu, hangzhou, wuhan, "
    "nanjing, tianjin, xian, china, mainland china",
    "Asia/Hong_Kong": "hong kong",
    "Asia/Tokyo": "osaka, kyoto, yokohama, nagoya, sapporo, fukuoka, hiroshima, kobe, jst",
    "Asia/Seoul": "busan, incheon, south korea, korea, kst",
    "Asia/Pyongyang": "north korea",
    "Asia/Ho_Chi_Minh": "hanoi, da nang, saigon, ho chi minh city, viet nam",
    "Asia/Bangkok": "phuket, chiang mai",
    "Asia/Manila": "cebu, quezon city",
    "Asia/Jakarta": "bandung, surabaya, indonesia",
    "Asia/Makassar": "bali, denpasar",
    "Asia/Kuala_Lumpur": "malaysia, penang",
    "Asia/Dubai": "abu dhabi, uae, united arab emirates, the emirates",
    "Asia/Riyadh": "jeddah, mecca, medina",
    "Asia/Jerusalem": "tel aviv, haifa",
    "Asia/Karachi": "lahore, islamabad",
    "Asia/Tashkent": "uzbekistan",
    "Asia/Almaty": "astana, kazakhstan",
    "Asia/Yangon": "burma, myanmar",
    "Africa/Lagos": "abuja",
    "Africa/Johannesburg": "cape town, pretoria, durban",
    "Africa/Cairo": "alexandria, giza",
    "Africa/Casablanca": "rabat, marrakesh, marrakech, morocco",
    "Africa/Nairobi": "mombasa",
    "Africa/Kinshasa": "congo, democratic republic of the congo",
    "Africa/Abidjan": "ivory coast",
    "America/New_York": "new york city, nyc, washington, washington dc, washington d c, boston, philadelphia, "
    "miami, atlanta, orlando, tampa, baltimore, pittsburgh, cleveland, charlotte, buffalo, "
    "brooklyn, manhattan, florida, georgia usa, massachusetts, pennsylvania, virginia, "
    "new jersey, north carolina, ohio, maryland, connecticut, usa, united states, "
    "united states of america, america, the us, the states, eastern, eastern time, est, edt",
    "America/Chicago": "houston, dallas, austin, san antonio, minneapolis, milwaukee, st louis, "
    "saint louis, kansas city, new orleans, nashville, memphis, texas, illinois, minnesota, "
    "louisiana, wisconsin, oklahoma, oklahoma city, central time, cst, cdt",
    "America/Denver": "salt lake city, boulder, albuquerque, colorado, utah, new mexico, "
    "mountain time, mst, mdt",
    "America/Los_Angeles": "san francisco, sf, san diego, san jose california, seattle, "
    "portland, las vegas, sacramento, oakland, silicon valley, california, oregon, nevada, "
    "washington state, pacific time, pst, pdt",
    "America/Phoenix": "arizona, tucson",
    "America/Anchorage": "alaska, fairbanks",
    "Pacific/Honolulu": "hawaii",
    "America/Toronto": "ottawa, montreal, quebec, quebec city, ontario, canada",
    "America/Vancouver": "british columbia",
    "America/Edmonton": "calgary, alberta",
    "America/Mexico_City": "mexico, guadalajara, puebla",
    "America/Sao_Paulo": "rio, rio de janeiro, brasilia, belo horizonte, brazil",
    "America/Argentina/Buenos_Aires": "argentina",
    "America/Santiago": "chile",
    "America/Lima": "cusco",
    "America/Bogota": "medellin, cali",
    "America/Guayaquil": "quito",
    "Australia/Sydney": "canberra, new south wales, australia, aest, aedt",
    "Australia/Melbourne": "victoria australia",
    "Australia/Brisbane": "gold coast, queensland",
    "Pacific/Auckland": "wellington, christchurch, new zealand",
    "Atlantic/Canary": "canary islands, tenerife, gran canaria",
    "Atlantic/Reykjavik": "iceland",
    "UTC": "utc, gmt, zulu, coordinated universal time, greenwich mean time",
}

_CAPITALS_ONLY = {
    "US": "America/New_York",
    "U.S": "America/New_York",
    "U.S.A": "America/New_York",
    "DC": "America/New_York",
    "LA": "America/Los_Angeles",
    "UK": "Europe/London",
    "U.K": "Europe/London",
    "NZ": "Pacific/Auckland",
    "HK": "Asia/Hong_Kong",
}
"""Short forms that are ordinary words or pieces of words when written small (`us`, `la`)."""

_WORDS_NOT_PLACES = frozenset(
    {
        "center", "central", "continental", "easter", "east", "eastern", "factory", "general",
        "greenwich", "localtime", "mountain", "north", "pacific", "prc", "roc", "rok", "south",
        "universal", "vincent", "west", "yukon", "navajo", "met", "wet", "eet", "hst", "act",
        "nsw", "w su", "uct", "gb", "nz", "oral", "davis", "casey", "knox", "wake", "troll",
        "monticello", "eire", "jan mayen", "resolute", "regina", "christmas", "virgin", "stanley",
        "mst", "est", "cet",
    }
)  # fmt: skip
"""Parts of zone names that mean something else in a sentence, or nobody says."""

_REGIONS = re.compile(
    r"(?:africa|america|antarctica|arctic|asia|atlantic|australia|brazil|canada|chile|etc|europe"
    r"|indian|mexico|pacific|us)/[A-Za-z0-9_+/-]+",
    re.IGNORECASE,
)


class Place(msgspec.Struct, frozen=True):
    """A place that a text names: as written there, and its IANA zone."""

    name: str
    zone: str


def looks_like_zone(text: str) -> bool:
    """Whether a text has the form of an IANA zone name, such as `Europe/Oslo`."""
    return _REGIONS.fullmatch(text) is not None


def zone_of(name: str) -> str | None:
    """The IANA zone of a place or of a zone name in any case; `None` for an unknown one."""
    stripped = name.strip().rstrip(".")
    if stripped in _CAPITALS_ONLY:
        return _CAPITALS_ONLY[stripped]
    key = _key(stripped)
    table = _table()
    return table.get(key) or table.get(key.removeprefix("the "))


def find_places(words: Sequence[str]) -> list[tuple[int, int, Place]]:
    """The places named by a run of words, each as (first word, word behind it, place).

    The longest name wins (`new york` before `york`), and a possessive counts (`Tokyo's`).
    """
    found: list[tuple[int, int, Place]] = []
    start = 0
    while start < len(words):
        for length in range(min(MAX_PLACE_WORDS, len(words) - start), 0, -1):
            name = re.sub(r"['\u2019]s?$", "", " ".join(words[start : start + length]))
            zone = zone_of(name)
            if zone is not None:
                found.append((start, start + length, Place(name, zone)))
                start += length
                break
        else:
            start += 1
    return found


def _key(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return " ".join(re.sub(r"[_,.'\u2019-]", " ", plain).split())


@functools.cache
def _table() -> dict[str, str]:
    zones = zoneinfo.available_timezones()
    table: dict[str, str] = {}
    for zone in sorted(zones):
        if zone.startswith(("posix/", "right/", "SystemV/")):
            continue
        if "/" in zone:
            table[_key(zone)] = zone
        city = _key(zone.rpartition("/")[2])
        # `Etc/GMT+5` and the like are five hours behind, not ahead: nobody means them by that.
        if city not in _WORDS_NOT_PLACES and not re.search(r"\d", city):
            known = table.get(city)
            if known is None or "/" not in known:
                table[city] = zone
    table.update(_countries(zones))
    for zone, names in _CITIES.items():
        for name in names.split(", "):
            table[name] = zone
    return table


def _countries(zones: set[str]) -> dict[str, str]:
    # The two tables stand beside the zones of the tzdata package, in the same format everywhere.
    folder = importlib.resources.files("tzdata") / "zoneinfo"
    first_zones: dict[str, str] = {}
    for row in _rows((folder / "zone.tab").read_text("utf-8")):
        first_zones.setdefault(row[0], row[2])
    countries: dict[str, str] = {}
    for code, name in _rows((folder / "iso3166.tab").read_text("utf-8")):
        zone = first_zones.get(code)
        if zone in zones and zone is not None:
            countries[_key(name.partition("(")[0])] = zone
            countries[_key(name.replace("&", "and"))] = zone
    return countries


def _rows(table: str) -> list[list[str]]:
    return [line.split("\t") for line in table.splitlines() if not line.startswith("#")]
