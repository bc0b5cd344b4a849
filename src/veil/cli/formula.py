"""`veil show formula`: what a formula means, as the automaton that decides it."""

from pathlib import Path

from .shared import print_json, print_table, write_text


def formula(text: str, svg: Path | None, as_json: bool) -> None:
    """Read a formula and show the smallest automaton that accepts the runs on which it holds; draw it to a file if asked."""
    from ..problem.formulas.drawing import conditions
    from ..problem.formulas.formula import Formula

    read = Formula(text)
    automaton = read.automaton()
    arrows = [(f"q{here}", words, f"q{there}") for (here, there), words in conditions(automaton).items()]
    accepting = [f"q{state}" for state, accepts in enumerate(automaton.accepting.tolist()) if accepts]
    if svg is not None:
        write_text(svg, read.svg(), force=True, marker="<svg")
    if as_json:
        steps = [dict(zip(("from", "if", "to"), arrow, strict=True)) for arrow in arrows]
        print_json(
            {
                "formula": text,
                "propositions": list(read.propositions),
                "states": len(automaton.accepting),
                "accepting": accepting,
                "arrows": steps,
                "file": None if svg is None else str(svg),
            }
        )
        return
    print(f"propositions   {', '.join(read.propositions) or 'none'}")
    print(f"states         {len(automaton.accepting)}, from q0; accepting: {', '.join(accepting) or 'none'}")
    print_table(["from", "if", "to"], arrows)
    if svg is not None:
        print(f"written to {svg}")
