"""A support corpus made by a seeded program, with questions whose answers are known.

Each document says one thing (a topic) of one product, among sentences that say nothing, and has
identifiers of its own; others have ones that differ in a digit. Classes of questions:

- *identifier*: an error code, part number or invoice number, alone or in a sentence;
- *paraphrase*: what a customer says, with no telling word of the document but the product;
- *keyword*: the document's own words;
- *mixed*: a paraphrase with an identifier, or with the document's own words;
- *one word*: a paraphrase with a single one of the document's words, which nothing tells from the
  words that a paraphrase shares with other documents by chance.

The settings of the search were chosen on the questions of the first topics, and figures are given
for those of the others. The documents of both are searched.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Class = Literal["identifier", "paraphrase", "keyword", "mixed", "one word"]
Half = Literal["tuning", "held out"]

CLASSES: tuple[Class, ...] = ("identifier", "paraphrase", "keyword", "mixed", "one word")
PRODUCTS = (
    "router",
    "camera",
    "printer",
    "speaker",
    "thermostat",
    "headset",
    "projector",
    "keyboard",
)


@dataclass(frozen=True)
class Topic:
    """A document's sentence, and questions for it."""

    name: str
    text: str
    keywords: str
    paraphrases: tuple[str, str]


_TUNING = 24
"""That many topics are for tuning."""

TOPICS = (
    Topic(
        "refund",
        "A refund for the {p} is issued to the original payment method within ten days",
        "refund issued original payment method",
        ("can I get my money back for the {p}", "you should reimburse me for this {p}"),
    ),
    Topic(
        "delivery",
        "Delivery of the {p} by standard courier takes three working days",
        "standard courier delivery",
        ("when will my {p} arrive at my house", "how long until the {p} I ordered gets here"),
    ),
    Topic(
        "repair",
        "A defective {p} is repaired free of charge by an authorised workshop",
        "defective authorised workshop",
        ("my {p} is broken, who can fix it", "the {p} stopped working, what now"),
    ),
    Topic(
        "password",
        "Reset the administrator password of the {p} in the security menu",
        "reset administrator password security menu",
        ("I forgot the login for my {p}", "locked out of my {p} and cannot sign in"),
    ),
    Topic(
        "battery",
        "The battery of the {p} lasts eight hours on a full charge",
        "battery full charge hours",
        ("how long does the {p} run when it is not plugged in", "{p} keeps dying without a cable"),
    ),
    Topic(
        "invoice",
        "The invoice for the {p} is sent as an attachment by electronic mail",
        "invoice attachment electronic mail",
        ("I need the bill for my {p} for my taxes", "where is the receipt for the {p}"),
    ),
    Topic(
        "warranty",
        "The statutory warranty of the {p} covers manufacturing faults for two years",
        "statutory warranty manufacturing faults",
        ("is my {p} still under guarantee", "am I protected if the {p} fails after a year"),
    ),
    Topic(
        "cancel",
        "An order of the {p} may be cancelled until it has left the warehouse",
        "order cancelled warehouse",
        ("I changed my mind and do not want the {p}", "stop the {p} purchase before it ships"),
    ),
    Topic(
        "noise",
        "A humming sound from the {p} is caused by electromagnetic interference",
        "humming electromagnetic interference",
        ("my {p} makes a strange buzz", "why is there an annoying noise coming from the {p}"),
    ),
    Topic(
        "firmware",
        "Install new firmware on the {p} from the maintenance page",
        "install firmware maintenance page",
        ("how do I update the software of my {p}", "bring the {p} up to the latest version"),
    ),
    Topic(
        "cleaning",
        "Wipe the housing of the {p} with a damp microfibre cloth",
        "wipe housing damp microfibre cloth",
        ("how can I get dirt off my {p}", "what do I use to wash the {p}"),
    ),
    Topic(
        "heat",
        "The {p} shuts down by itself above an ambient temperature of forty degrees",
        "ambient temperature forty degrees shuts down",
        ("my {p} overheats and turns off in summer", "is the {p} safe in a very hot room"),
    ),
    Topic(
        "pairing",
        "Hold the pairing button of the {p} until the indicator blinks blue",
        "pairing button indicator blinks",
        ("how to connect the {p} to my phone", "link the {p} with another device wirelessly"),
    ),
    Topic(
        "disposal",
        "Return a worn out {p} to a collection point for electronic waste",
        "collection point electronic waste",
        ("how do I throw away my old {p}", "where can the {p} be recycled"),
    ),
    Topic(
        "discount",
        "Schools and charities receive a rebate of fifteen percent on the {p}",
        "schools charities rebate percent",
        ("is the {p} cheaper for teachers", "any special price on the {p} for a non-profit"),
    ),
    Topic(
        "language",
        "Change the display language of the {p} under regional settings",
        "display language regional settings",
        ("the menus of my {p} are in Chinese, I want English", "translate the {p} screen"),
    ),
    Topic(
        "mounting",
        "Fasten the {p} to the wall with the bracket and two screws",
        "fasten wall bracket screws",
        ("how do I hang up the {p}", "attach the {p} above my desk without a shelf"),
    ),
    Topic(
        "privacy",
        "The {p} stores personal data only on servers inside the European Union",
        "stores personal data servers European Union",
        ("does the {p} spy on me", "who can see the information my {p} collects"),
    ),
    Topic(
        "replacement",
        "Spare parts for the {p} can be ordered for at least five years",
        "spare parts ordered five years",
        ("I lost a chunk of my {p} and need a new one", "can I buy components for the {p}"),
    ),
    Topic(
        "children",
        "Parental controls of the {p} limit its use to certain times of day",
        "parental controls limit times of day",
        ("keep my kids from using the {p} at night", "make the {p} safe for my daughter"),
    ),
    Topic(
        "rental",
        "The {p} may be leased monthly, with a deposit of one hundred euros",
        "leased monthly deposit euros",
        ("can I rent a {p} instead of buying it", "borrow the {p} for a few weeks"),
    ),
    Topic(
        "outage",
        "If the {p} loses its network connection, restart the gateway first",
        "loses network connection restart gateway",
        ("my {p} is offline", "the internet of my {p} does not work any more"),
    ),
    Topic(
        "training",
        "A free introductory webinar on the {p} takes place every Tuesday",
        "free introductory webinar Tuesday",
        ("where can I learn how to use the {p}", "I am a beginner, teach me the {p}"),
    ),
    Topic(
        "complaint",
        "A grievance about the {p} is answered by the ombudsman within a week",
        "grievance answered ombudsman",
        (
            "I am unhappy with how you handled my {p}",
            "whom do I tell that I am angry about it, {p}",
        ),
    ),
    # Written when the settings of the search had been chosen, and not looked at before: held out.
    Topic(
        "customs",
        "Import duties on the {p} are borne by the recipient outside the Union",
        "import duties borne recipient",
        ("do I have to pay tax at the border for the {p}", "{p} fees when it comes from abroad"),
    ),
    Topic(
        "engraving",
        "An inscription of up to thirty characters is etched on the {p} at no cost",
        "inscription characters etched",
        ("can you put my name on the {p}", "I would like a personal message written on the {p}"),
    ),
    Topic(
        "insurance",
        "Accidental damage to the {p} is insured under the premium plan",
        "accidental damage insured premium plan",
        ("I dropped my {p} and the glass cracked", "am I covered if I spill coffee over the {p}"),
    ),
    Topic(
        "instalments",
        "The price of the {p} may be paid in twelve monthly instalments",
        "price twelve monthly instalments",
        ("can I buy the {p} on credit", "spread the cost of the {p} over a year"),
    ),
    Topic(
        "altitude",
        "Operation of the {p} is not approved more than two thousand metres above sea level",
        "operation approved metres above sea level",
        ("will the {p} work high up in the mountains", "I live in the Alps, can I use the {p}"),
    ),
    Topic(
        "subscription",
        "The extended service contract of the {p} renews every January until terminated",
        "extended service contract renews terminated",
        ("why was I charged again for my {p}", "how do I end the yearly plan for the {p}"),
    ),
    Topic(
        "theft",
        "Report a stolen {p} with its serial number so that we can block it",
        "report stolen serial number block",
        ("somebody took my {p} from my car", "a burglar ran away with our {p}"),
    ),
    Topic(
        "colour",
        "The enclosure of the {p} is available in graphite, ivory and burgundy",
        "enclosure graphite ivory burgundy",
        ("does the {p} come in white or red", "which shades can I choose for the {p}"),
    ),
    Topic(
        "energy",
        "In standby the {p} draws less than half a watt of electricity",
        "standby draws watt electricity",
        ("how much power does the {p} use when idle", "does the {p} make my utility costs go up"),
    ),
    Topic(
        "export",
        "Usage logs of the {p} are downloaded as a spreadsheet from the dashboard",
        "usage logs downloaded spreadsheet dashboard",
        ("can I get the history of my {p} into Excel", "save the statistics of the {p} to a file"),
    ),
    Topic(
        "gift",
        "A voucher for the {p} remains valid for thirty six months after its issue",
        "voucher valid months issue",
        (
            "when does the present card for the {p} expire",
            "my coupon for a {p} is old, still good?",
        ),
    ),
    Topic(
        "unpacking",
        "Retain the carton of the {p} until the trial period has ended",
        "retain carton trial period",
        ("should I keep the box the {p} came in", "may I throw out the packaging of the {p}"),
    ),
)
FILLER = (
    "Our staff will gladly help you with further questions.",
    "Please have your customer number at hand when you call.",
    "This page was last reviewed by the support team.",
    "The same holds for products that were bought from a reseller.",
    "Opening hours are from nine to five on working days.",
    "You will find pictures of each step in the printed manual.",
    "Terms may be different outside of the country of purchase.",
    "Thank you for being a customer of ours.",
)


@dataclass(frozen=True)
class Identifiers:
    """Those of one document."""

    error: str
    part: str
    invoice: str


@dataclass(frozen=True)
class Question:
    """A question, and the source of its answer."""

    asked: Class
    half: Half
    text: str
    answer: str


@dataclass(frozen=True)
class Corpus:
    """Texts by source, and what is asked."""

    documents: dict[str, str]
    products: dict[str, str]
    """The product that a document is about, by source: metadata to filter by."""

    questions: tuple[Question, ...]


def corpus(seed: int = 7) -> Corpus:
    """The documents and questions of this seed, the same each time."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    identifiers = iter(_identifiers(chance, len(PRODUCTS) * len(TOPICS) + 64))
    documents: dict[str, str] = {}
    products: dict[str, str] = {}
    questions: list[Question] = []
    for number, topic in enumerate(TOPICS):
        half: Half = "tuning" if number < _TUNING else "held out"
        for product in PRODUCTS:
            source = f"{product}-{topic.name}"
            own = next(identifiers)
            documents[source] = _document(chance, topic, product, own)
            products[source] = product
            for asked, text in _asked(chance, topic, product, own):
                questions.append(Question(asked, half, text, source))
    for number, own in enumerate(identifiers):
        source = f"release-notes-{number}"
        documents[source] = (
            f"Release notes {number}. Fixed {own.error} on some devices. {chance.choice(FILLER)} "
            f"Part {own.part} is no longer made; see invoice {own.invoice} for an example."
        )
        products[source] = "none"
    return Corpus(documents, products, tuple(questions))


def _identifiers(chance: random.Random, count: int) -> list[Identifiers]:
    """An identifier that is easily confused: the same letters, and digits in another order."""
    found: set[Identifiers] = set()
    seen: set[str] = set()
    while len(found) < count:
        one = Identifiers(
            f"ERR-{chance.randrange(4000, 4400)}",
            f"{chance.choice('TBX')}{chance.choice('XK')}-{chance.randrange(10, 30)}-"
            f"{chance.choice('ABC')}",
            f"INV/{chance.randrange(2021, 2025)}/{chance.randrange(100, 400)}",
        )
        names = {one.error, one.part, one.invoice}
        if not names & seen:
            seen |= names
            found.add(one)
    return sorted(found, key=lambda one: one.error)


def _document(chance: random.Random, topic: Topic, product: str, own: Identifiers) -> str:
    sentences = [
        f"{topic.text.format(p=product)}.",
        f"If you see {own.error}, quote part {own.part}.",
        f"An example is invoice {own.invoice}.",
        *chance.sample(FILLER, 2),
    ]
    chance.shuffle(sentences)
    return " ".join(sentences)


def _asked(
    chance: random.Random, topic: Topic, product: str, own: Identifiers
) -> list[tuple[Class, str]]:
    """One question of each kind and two of some; which identifier is asked for is chance."""
    one, other = chance.sample([own.error, own.part, own.invoice], 2)
    first, second = (said.format(p=product) for said in topic.paraphrases)
    return [
        ("identifier", one),
        ("identifier", f"what does {other} mean for my device"),
        ("paraphrase", first),
        ("paraphrase", second),
        ("keyword", f"{topic.keywords} {product}"),
        ("mixed", f"{first}, it says {other}"),
        ("mixed", f"{second}, {topic.keywords}"),
        ("one word", f"{second} ({topic.keywords.split()[-1]})"),
    ]
