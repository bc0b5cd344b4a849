"""Graphs of networkx: GraphML files and node-link JSON, whose attributes say what is paid, seen and drawn."""

from ..registry import Format, later

FORMAT = Format(
    (".graphml", ".json"),
    "graphs of networkx (GraphML, node-link JSON)",
    read_model=later("veil.formats.graphs.files:read_graph"),
    options={
        "edges": "what an edge without the attribute action is: actions or probabilities",
        "discount": "discount factor",
    },
    extra="graphs",
    recognises=later("veil.formats.graphs.files:is_graph"),
)
