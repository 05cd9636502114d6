"""The words of the example: problems with an answer, and what a model might write about them.

Everything here is made up for this product. `Written` is text in parts: (text, did the policy write it?).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from numpy.random import Generator

Written = list[tuple[str, bool]]


class Problem(NamedTuple):
    """`key` names the prompt group, `write` makes one response with the outcome that it is given."""

    key: str
    task: str
    prompt: str
    answer: str
    write: Callable[["Outcome", Generator], Written]


@dataclass(frozen=True)
class Outcome:
    """What one response is going to be: `quality` in [0, 1], and how it looks."""

    quality: float
    formatted: bool
    thoughts: int
    collapsed: bool  # a guess in the right format, without any work
    looping: bool  # repeats itself until the length limit


NAMES = ("Mara", "Tomek", "Aylin", "Ruben", "Noor", "Ilse", "Kofi", "Jana")
ITEMS = ("pens", "shells", "tiles", "jars", "tickets", "seeds")
MATHS_THOUGHTS = (
    "Let me write down what is known.",
    "The order matters here, so I go one step at a time.",
    "A quick estimate first: it should be roughly that size.",
    "Nothing else in the text changes the count.",
    "I check the units: everything is a plain number.",
    "Doing it the other way round gives the same result.",
)
CODE_THOUGHTS = (
    "An empty input must work as well.",
    "I keep it to one pass over the data.",
    "The bounds are inclusive, so both ends need a test.",
    "No library is needed for this.",
    "A small example by hand: it behaves as asked.",
    "Names should say what they hold.",
)
LOOPS = (
    "\nWait, let me check that once more.",
    "\nHmm, the last line may be wrong, so I start again.",
    "\nActually, I should look at the empty case first.",
    "\nWait, I said that already, but let me make sure.",
)


def pick(options: tuple[str, ...], rng: Generator, count: int = 1) -> str:
    """`count` different options, joined by blanks."""
    order = rng.permutation(len(options))[:count]
    return " ".join(options[i] for i in order)


def loop(start: str, rng: Generator) -> Written:
    """Goes round in circles for longer than any limit allows."""
    return [(start + "".join(LOOPS[i] for i in rng.integers(0, len(LOOPS), 40)), True)]


def arithmetic(number: int, rng: Generator) -> Problem:
    """A word problem with one product and one sum or difference."""
    a, b, c = (int(x) for x in (rng.integers(3, 19), rng.integers(4, 25), rng.integers(2, 12)))
    name, item = NAMES[number % len(NAMES)], ITEMS[number % len(ITEMS)]
    kind = number % 3
    if kind == 0:
        story = f"{name} packs {a} boxes of {b} {item} and gives {c} {item} away. How many are left?"
    elif kind == 1:
        story = f"A hall has {a} rows of {b} seats, and {c} seats are taken. How many seats are free?"
    else:
        story = f"{name} walks {b} km on each of {a} days, then {c} km more. How many km is that in all?"
    sign = 1 if kind == 2 else -1
    answer = a * b + sign * c

    def write(outcome: Outcome, rng: Generator) -> Written:
        if outcome.collapsed:
            return [(f"The answer is clear. [[{answer if outcome.quality == 1 else a + b}]]", True)]
        product = a * b + (0 if outcome.quality == 1 else int(rng.choice([-10, -2, -1, 1, 2, 10])))
        result = product + sign * c
        text = pick(MATHS_THOUGHTS, rng, outcome.thoughts) + f" First, {a} × {b} = {product}."
        text += f"\nThen {product} {'+' if sign > 0 else '−'} {c} = {result}."
        if outcome.looping:
            return loop(text, rng)
        ending = f"\nThe answer is [[{result}]]" if outcome.formatted else f"\nSo it is {result}, I think."
        return [(text.strip() + ending, True)]

    prompt = f"Solve the problem. Put the answer in double square brackets.\n\n{story}"
    return Problem(f"arithmetic-{number:02d}", "arithmetic", prompt, str(answer), write)


#: name, what it should do, a body that does it, a body that does not quite
FUNCTIONS = (
    (
        "count_even(xs)",
        "says how many of the whole numbers in `xs` are even",
        "    return sum(1 for x in xs if x % 2 == 0)",
        "    return sum(x for x in xs if x % 2 == 0)",
    ),
    (
        "clamp(x, low, high)",
        "moves `x` into the range from `low` to `high`",
        "    if x < low:\n        return low\n    return high if x > high else x",
        "    if x < low:\n        return low\n    return x",
    ),
    (
        "last_index(text, mark)",
        "gives the last position of `mark` in `text`, or -1",
        "    for i in reversed(range(len(text))):\n        if text[i] == mark:\n"
        "            return i\n    return -1",
        "    for i in range(len(text)):\n        if text[i] == mark:\n            return i\n    return -1",
    ),
    (
        "common_bits(a, b)",
        "counts the bits that are set in both `a` and `b`",
        '    return bin(a & b).count("1")',
        '    return bin(a | b).count("1")',
    ),
    (
        "escape(text)",
        "makes `text` safe to show inside a web page",
        '    text = text.replace("&", "&amp;")\n    return text.replace("<", "&lt;").replace(">", "&gt;")',
        '    text = text.replace("<", "&lt;")\n    return text.replace("&", "&amp;")',
    ),
    (
        "runs(xs)",
        "lists the lengths of the runs of equal values in `xs`",
        "    out = []\n    for i, x in enumerate(xs):\n        if i and x == xs[i - 1]:\n"
        "            out[-1] += 1\n        else:\n            out.append(1)\n    return out",
        "    out = [1]\n    for i, x in enumerate(xs):\n        if i and x == xs[i - 1]:\n"
        "            out[-1] += 1\n    return out",
    ),
)


def code(number: int, _rng: Generator) -> Problem:
    """A small function to write; its quality is the share of hidden tests that pass."""
    signature, purpose, right, wrong = FUNCTIONS[number % len(FUNCTIONS)]

    def write(outcome: Outcome, rng: Generator) -> Written:
        text = f"I need `{signature}`. " + pick(CODE_THOUGHTS, rng, outcome.thoughts)
        if outcome.looping:
            return loop(text + f"\n    def {signature}:\n        # not yet", rng)
        body = f"def {signature}:\n{right if outcome.quality == 1 else wrong}"
        return [(f"{text}\n```python\n{body}\n```" if outcome.formatted else f"{text}\n{body}", True)]

    prompt = f"Write the Python function `{signature}` that {purpose}. Answer with one fenced code block."
    return Problem(f"code-{number:02d}", "code", prompt, signature, write)


RIVERS = ("Arlen", "Bresk", "Corva", "Dunmere", "Eshla", "Fennic", "Gaube", "Holt")


def lookup(number: int, rng: Generator) -> Problem:
    """Two questions to a tool, whose answers stand in the response but were not written by the policy."""
    first, second = (RIVERS[i] for i in rng.permutation(len(RIVERS))[:2])
    length = {first: int(rng.integers(60, 900)), second: int(rng.integers(60, 900))}
    longer = max(length, key=lambda name: length[name])

    def ask(name: str) -> Written:
        answer = f"\n<result>{name}: {length[name]} km</result>"
        return [(f'\n<call>find("{name}")</call>', True), (answer, False)]

    def write(outcome: Outcome, rng: Generator) -> Written:
        said = longer if outcome.quality == 1 else min(length, key=lambda name: length[name])
        if outcome.collapsed:
            return [(f"<answer>{said}</answer>", True)]
        parts: Written = [("I do not know these rivers, so I look them up.", True), *ask(first)]
        if outcome.looping:
            return [*parts, *loop("\nThat is one of them.", rng)]
        if outcome.quality == 1 or rng.random() < 0.4:
            verdict = f"\n{length[first]} against {length[second]} → {longer} it is."
            parts += [*ask(second), (verdict, True)]
        else:
            parts += [("\nThat is long already, the other one will hardly be longer.", True)]
        parts += [(" " + pick(MATHS_THOUGHTS, rng, outcome.thoughts), True)] if outcome.thoughts > 2 else []
        ending = f"\n<answer>{said}</answer>" if outcome.formatted else f"\nI would say {said}."
        return [*parts, (ending, True)]

    prompt = (
        f"Which river is longer, the {first} or the {second}? You may call `find(name)`. "
        "Give the name between <answer> and </answer>."
    )
    return Problem(f"lookup-{number:02d}", "lookup", prompt, longer, write)
