"""Answer ruler_lite from the tokens of a row up to ANS, and from nothing else."""

from collections import Counter

from zoo.tasks.ruler.tokens import AND, ANS, DIGITS, DOTS, EOS, EQ, FOR, IS, NEEDLE, QUERY, SEP, VAR

Tokens = list[int]


def answer(row: Tokens) -> Tokens:
    """Return the tokens after ANS, EOS included."""
    query = row.index(QUERY)
    parts = _parts(row[1:query], row[query + 1 : row.index(ANS)])
    written = [token for part in parts for token in (*part, AND)]
    return [*written[:-1], EOS]


def _parts(context: Tokens, query: Tokens) -> list[Tokens]:
    if not query:
        return _counted(context)
    return _held(context, query) if query[0] in DIGITS else _search(context, query)


def _search(context: Tokens, query: Tokens) -> list[Tokens]:
    """Return the values of the needles of each key in the query."""
    needles = [_split(needle, IS) for needle in _sentences(context, NEEDLE)]
    keys, rest = [], query
    while rest:
        key, rest = _split(rest, AND)
        keys.append([FOR, *key])
    return [value for key in keys for name, value in needles if name == key]


def _held(context: Tokens, value: Tokens) -> list[Tokens]:
    """Return the variables that hold the value, directly or because they are set to such a variable."""
    answers: list[Tokens] = []
    for sentence in _sentences(context, VAR):
        name, source = _split(sentence, EQ)
        if source == value or source[1:] in answers:
            answers.append(name)
    return answers


def _counted(context: Tokens) -> list[Tokens]:
    counts = Counter(context)
    if DOTS not in counts:
        common = [word for word, _ in counts.most_common(10)]
        return [[word] for word in counts if word in common]  # a Counter is in the order of appearance
    del counts[DOTS]
    return [[word] for word, _ in counts.most_common(3)]


def _sentences(context: Tokens, sign: int) -> list[Tokens]:
    """Return the tokens between each `sign` and the next SEP."""
    values, rest = [], context
    while sign in rest:
        sentence, rest = _split(rest[rest.index(sign) + 1 :], SEP)
        values.append(sentence)
    return values


def _split(tokens: Tokens, sign: int) -> tuple[Tokens, Tokens]:
    """Return the tokens before and after the first `sign`; all tokens and none if there is no `sign`."""
    at = tokens.index(sign) if sign in tokens else len(tokens)
    return tokens[:at], tokens[at + 1 :]
