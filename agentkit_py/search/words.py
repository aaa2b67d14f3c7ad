"""Words that a search looks for: of texts and of queries, in their language.

Words are casefolded and reduced to their stems by the language of the text, recognised by its
script or by its commonest words. Scripts that write no spaces between words are searched by pairs
of letters. What looks like an identifier is its parts and the whole: ``ERR-4012`` is ``err``,
``4012`` and ``err4012``. The parts are in many texts, the whole in few.
"""

# ruff: noqa: RUF001 - letters of other scripts
from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs] - it has none

_snowball: Any = snowballstemmer

MAX_WORD = 256
"""The letters of a word that are searched for and stored; the rest is cut off."""

MAX_WORDS = 32
"""Words of a query that are searched for."""

_LONGEST_STEM = 64
"""Longer strings are not words of a language."""

_MAX_JOINED = 64
_MIN_NUMBER = 5
_MIN_CODE = 4
_TOLD_BY = 400
"""Words of a text that decide its language."""

# Thai, Lao, Burmese, Khmer, Japanese, Chinese; and Korean, which joins words to their endings.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
"""Vowels and accents of words, which are not letters by themselves."""

_PART = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_PLAIN = re.compile("[a-z0-9]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]{{2}}")
_JOINED = re.compile(r"[^\W_]+(?:[-_./:#][^\W_]+)*")
"""Matches every word, joined or not: matching joined ones only takes quadratic time."""

_BLOCK = re.compile(r"\S{1,500}|\s+")
"""A piece to normalize: many accents in a row take quadratic time."""

_JOINT = re.compile(r"[-_./:#]")
_DIGIT = re.compile(r"\d")

_COMMON_WORDS = {
    "english": (
        "a an and are as at be been but by can could did do does for from had has have he her his "
        "how i if in into is it its me my no not of on or our she should so that the their them "
        "then there these they this to was we were what when where which who why will with would "
        "you your"
    ),
    "german": (
        "aber als am an auch auf aus bei bin bis bist da damit das dass dem den der des die doch "
        "du ein eine einem einen einer er es für hat habe haben ich ihr im in ist kann kein keine "
        "man mein meine mich mir mit nach nicht noch nur oder sein sich sie sind so um und uns "
        "unser von vor war was welche wenn wer werden wie wir wird wo zu zum zur über"
    ),
    "french": (
        "a ai au aux avec ce cela ces cette comme dans de des du elle en est et il ils je la le "
        "les leur ma mais me mes mon ne nous on ont ou où par pas pour qu que quel quelle qui sa "
        "se ses son sont sur ta te tu un une vous"
    ),
    "spanish": (
        "a al como con cuando cuál de del dónde el ella en es esta este esto está están ha hay la "
        "las le lo los me mi mis muy más no nos o para pero por que qué quién se ser si sin su "
        "sus también te tu un una y ya yo"
    ),
    "italian": (
        "a ai al alla anche che chi ci come con cosa da dal dalla dei del della delle di dove e "
        "ed gli ha ho i il in io la le lo ma mi mio nel nella non per perché più quale quando "
        "questo se si sono su sul sulla un una è"
    ),
    "portuguese": (
        "a ao as com como da das de do dos e ela ele em essa esse esta este está eu foi há isso "
        "já mais mas me meu minha muito na nas no nos não o onde os ou para pela pelo por qual "
        "quando que quem se sem ser seu sua são também tem um uma você à é"
    ),
    "dutch": (
        "aan als bij dat de der deze die dit door een en er ga had heb hebben heeft het hij hoe "
        "hun ik in is ja je kan maar me met mijn naar niet nog nu of om onder ons ook op over te "
        "tot uit van voor waar wanneer was wat we wel welke wie wij worden wordt zal ze zich zij "
        "zijn zo"
    ),
    "swedish": (
        "att av de den det din du där eller en ett fram från för ha han har hon hur här i inte "
        "jag kan man med men mig min mitt mot mycket när och om oss på sin skulle som så till "
        "under upp ut vad var vara vi vid vill är över"
    ),
    "danish": (
        "af at blev da de den der deres det dig din disse du efter eller en er et for fra ham han "
        "har havde hun hvad hvis hvor i ikke jeg kan man med meget men mig min mit ned noget "
        "nogle nu når og også om op os over på sig skal som så til ud var vi vil ville være"
    ),
    "polish": (
        "ale bez bo by był była było być co czy dla do gdzie go i ich ile ja jak jest jestem już "
        "kiedy kto która które który ma mam mi mnie moja moje mój na nie o od oraz po pod przez "
        "są się ta tak tam te tego ten to tym w we z za ze że"
    ),
    "czech": (
        "a aby ale ani bez bude by byl byla bylo být co do i jak jako je jeho její jen jsem jsme "
        "jsou k kde kdo kdy která které který ma mi mám má můj na ne nebo není o od po pro při s "
        "se si tak také ten to tím u už v ve z za ze že"
    ),
    "turkish": (
        "ama bana ben benim bir biz bu bunu da daha de değil diye en gibi hangi her için ile "
        "kadar ki kim mi mı mu mü nasıl ne neden nerede o olan olarak olduğu sen siz var ve veya "
        "ya yok çok şu"
    ),
    "russian": (
        "а без бы был была были было быть в вам вас во вот все вы где да для до его ее если есть "
        "еще же за и из или им их к как когда кто ли мне мой моя мы на не нет ни но о об он она "
        "они от по при с со так такой там то только ты у уже что чтобы это этот я"
    ),
}
"""Words of nearly every text of a language: they distinguish nothing, but identify the language."""

_COMMON = {language: frozenset(words.split()) for language, words in _COMMON_WORDS.items()}
_EVERY = frozenset[str]().union(*_COMMON.values())
_SCRIPTS = (
    ("russian", re.compile("[\u0400-\u04ff]")),
    ("greek", re.compile("[\u0370-\u03ff\u1f00-\u1fff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("hindi", re.compile("[\u0900-\u097f]")),
    ("tamil", re.compile("[\u0b80-\u0bff]")),
    ("armenian", re.compile("[\u0530-\u058f]")),
)
ENGLISH = "english"
LANGUAGES = frozenset[str](_snowball.algorithms())
"""Languages whose words are reduced to stems; words of others stay as they are."""

_stemmers = threading.local()


def words(text: str) -> list[str]:
    """Return every word of a text, casefolded, with joined identifiers."""
    if not text.isascii():
        text = "".join(unicodedata.normalize("NFKC", one) for one in _BLOCK.findall(text))
    plain = text.casefold()
    found: list[str] = []
    for part in (_PLAIN if plain.isascii() else _PART).findall(plain):
        if not part.isascii() and _IS_UNSPACED.match(part):
            found += [part[i : i + 2] for i in range(len(part) - 1)]
        else:
            found.append(part[:MAX_WORD])
    if not _DIGIT.search(plain):
        return found
    joined = [_JOINT.sub("", one) for one in _JOINED.findall(plain) if not one.isalnum()]
    return found + [one for one in joined if len(one) <= _MAX_JOINED and _DIGIT.search(one)]


def language_of(found: Sequence[str]) -> str:
    """Return the language of casefolded words: by their script, or by the commonest among them.

    A text without either, such as a list of names, counts as English.
    """
    some = found[:_TOLD_BY]
    initials = "".join(word[0] for word in some)
    for language, script in () if initials.isascii() else _SCRIPTS:
        if len(script.findall(initials)) * 2 > len(initials):
            return language
    common = _EVERY.intersection(some)
    return max(_COMMON, key=lambda name: len(common & _COMMON[name])) if common else ENGLISH


def terms(text: str, language: str | None = None) -> tuple[str, list[str]]:
    """Return the language of a text, guessed unless it is given, and the stems of all words."""
    found = words(text)
    spoken = language or language_of(found)
    return spoken, [_stem(word, spoken) for word in found]


def sought(query: str, languages: Collection[str]) -> list[tuple[str, ...]]:
    """Return the telling words of a query, each as its stems in the languages of the texts.

    Common words are left out, unless all are; so are words after the first `MAX_WORDS`.
    """
    found = list(dict.fromkeys(words(query)))
    common = _COMMON.get(language_of(found), frozenset())
    telling = ([word for word in found if word not in common] or found)[:MAX_WORDS]
    among = sorted(languages) or [ENGLISH]
    stems = (tuple(dict.fromkeys(_stem(word, one) for one in among)) for word in telling)
    return list(dict.fromkeys(stems))


def identifiers(query: str) -> set[str]:
    """Return the words that identify: ``err4012``, ``tx200``, ``78123``; not ``2024``."""
    return {
        word
        for word in words(query)
        if _DIGIT.search(word) and len(word) >= (_MIN_NUMBER if word.isdigit() else _MIN_CODE)
    }


@lru_cache(maxsize=50_000)
def _stem(word: str, language: str) -> str:
    if language not in LANGUAGES or len(word) > _LONGEST_STEM or _DIGIT.search(word):
        return word
    # A stemmer holds the word it works on, so each thread has its own.
    known: dict[str, Any] = _stemmers.__dict__
    if language not in known:
        known[language] = _snowball.stemmer(language)
    return known[language].stemWord(word)
