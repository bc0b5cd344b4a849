"""The form of a scenario file: one pydantic model per table, each key with its meaning, and the JSON schema."""

from functools import cache
from typing import Annotated, Any, Literal, Union

from pydantic import ConfigDict, Discriminator, Field, create_model
from pydantic.json_schema import JsonSchemaValue

from ...policy.memories.registry import MEMORIES
from ...problem import constraints
from ...problem.agent import Sight
from ...problem.belief import Belief
from ...problem.keys import Key, PolicyFile
from ...problem.masks import Masks
from ...problem.observer import Observer
from ...problem.observers.registry import OBSERVERS
from ...problem.pairs import Pair
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ...querying.problem import Querying
from ..documents import published
from .keys import FORMS, declared_form, fields_of
from .solve_table import Settings, memory_form
from .types import (
    Cell,
    Constant,
    Direction,
    Emission,
    Finite,
    Meaning,
    Name,
    Position,
    Probability,
    Reward,
    Start,
    States,
    Table,
    Threshold,
    Times,
    Transition,
    Weight,
)

MOST_DECISIONS = 100_000
MOST_CELLS = 50_000
MOST_MODELS = 64
MOST_SENSORS = 200
MOST_OBSERVERS = 20
MOST_REWARDS, MOST_CONSTRAINTS, MOST_PAIRS = 50, 50, 20


def _of(keys: dict[str, Any], base: type[Table] = Table) -> type[Any]:
    """A table of some declared keys, after those of another."""
    return create_model("Keys", __base__=base, **keys)


class DiscShape(Table):
    """A disc of cells about a point, as far as they are in sight of it: in metres if the grid has a `cell_size`.

    A cell is in sight if the line from `centre` to its centre passes through no wall, and through no corner at which two walls
    touch; the cell that holds `centre` does not block.
    """

    centre: Position = Field(
        description="`[x, y]` in metres; without a `cell_size` `[row, column]` in cells, whole numbers for their centres."
    )
    radius: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        description="How far it reaches, to the centres of cells."
    )
    edge: Probability | None = Field(
        None, description="Probability of a report at the distance `radius`, linear between; by default `detection`."
    )
    through_walls: bool = Field(False, description="Whether it covers cells out of sight.")


class ConeShape(DiscShape):
    """The part of a disc that lies within half of `angle` of a direction, to either side."""

    direction: Direction = Field(description="Degrees counterclockwise from east (the x axis), or a compass point.")
    angle: float = Field(90.0, gt=0, le=360, description="Opening angle in degrees.")


class DrawnSensor(Table):
    """A sensor of a grid. The key is the character that marks its range in the drawing, or with a shape any name."""

    name: Name | None = Field(
        None, description="Name in the observations, without `+` and not `0`; by default the character."
    )
    detection: Probability = Field(0.9, description="Probability of a report if the agent is in range.")
    false_alarm: Probability = Field(0.0, description="Probability of a report if it is not.")
    cells: list[Cell] = Field([], description="Cells of its range besides those drawn.")
    disc: DiscShape | None = Field(None, description="A disc that it covers: `{ centre = [x, y], radius = … }`.")
    cone: ConeShape | None = Field(None, description="A cone that it covers: a disc with `direction` and `angle`.")


class GoalCell(Table):
    """A goal of a grid, given by its cell."""

    cell: Cell = Field(description="The cell.")
    reward: Finite = Field(description="Paid for each decision taken there.")


class StartCell(Table):
    """A start of a grid, given by its cell."""

    cell: Cell = Field(description="The cell.")
    weight: Weight = Field(1.0, description="Its probability relative to the other starts.")


class Grid(Table):
    """A grid world: drawn, or given by its size and lists of cells, or both. Row 0 is at the top; states are `r0c0`, ….

    In the drawing `.` is floor, `#` wall, `S` start, `G` goal, `?` secret, `X` absorbing; any other character is a
    sensor or is explained in the legend. If the drawing has spaces, they separate cells, and a cell may hold several
    characters (`gG`: in range of sensor g, and a goal); otherwise each character is a cell. A move goes as intended with
    probability 1 − 2·slip and to each side with probability slip; a move off the grid or into a wall stays in place.
    """

    drawing: str | None = Field(None, description="The grid, one line per row.")
    rows: Annotated[int, Field(ge=1, le=MOST_CELLS)] | None = Field(
        None, description="Number of rows, if there is no drawing."
    )
    columns: Annotated[int, Field(ge=1, le=MOST_CELLS)] | None = Field(None, description="Number of columns, likewise.")
    legend: dict[str, Meaning] = Field(
        {},
        max_length=500,
        description="Meanings of further characters: floor, wall, start, goal, secret, absorbing, or the character of"
        " a sensor; several in a list; in a table also a `reward` of goals, a `weight` of starts, or a"
        ' `zone`, a label of expressions: `{ is = "goal", reward = 0.5 }`.',
    )
    sensors: dict[str, DrawnSensor] = Field(
        {}, max_length=MOST_SENSORS, description="The sensors, by character or name."
    )
    readings: Literal["independent", "single"] = Field(
        "independent",
        description='`"independent"`: an observation is the set of sensors that report, such as `w+e`, or `0` for'
        ' none. `"single"`: at most one reports per step; ranges must not overlap.',
    )
    walls: list[Cell] = Field([], description="Such cells, besides those drawn.")
    starts: list[StartCell] = Field(
        [], description="Starts besides those drawn, whose weight is 1; weights are relative."
    )
    goals: list[GoalCell] = Field([], description="Goals besides those drawn.")
    secrets: list[Cell] = Field([], description="Such cells, besides those drawn.")
    absorbing: list[Cell] = Field([], description="Such cells, besides those drawn.")
    goal_reward: Finite = Field(1.0, description="Paid for each decision taken in a drawn goal.")
    goals_pay_last: bool = Field(False, description="Whether the last state pays too.")
    cell_size: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None, description="Side of a cell in metres; shapes of sensors are then in metres, x to the right and y up."
    )
    origin: Position | None = Field(
        None, description="Position of the lower left corner in metres; `[0, 0]` by default."
    )
    yaw: Finite | None = Field(None, description="Counterclockwise rotation about the origin, in radians.")
    slip: float = Field(0.1, ge=0, le=0.5, description="Probability of slipping to each side. `stay` does not slip.")
    stay: bool = Field(True, description="Whether there is an action that stays in place.")
    discount: Probability = Field(1.0, description="Discount factor per step.")


class Graph(Table):
    """A model with named states and a list of transitions. An action without entries for a state is not available there."""

    states: list[Name] | None = Field(None, description="The states in order; by default as the transitions name them.")
    actions: list[Name] | None = Field(None, description="The actions in order, likewise.")
    transitions: list[Transition] = Field(
        [],
        description='Entries `["state", "action", "next state"]`, `["state", "action", "next state", probability]` or'
        ' `["state", "action", { "next state" = probability, … }]`.',
    )
    initial: Start | None = Field(
        None,
        description="Start: a state, several (equally likely), or a table of probabilities.",
    )
    rewards: dict[Name, Reward] = Field(
        {}, description="Paid for each decision: `state = number`, or `state = { action = number }`; 0 by default."
    )
    terminal_rewards: dict[Name, Finite] = Field(
        {}, description="Paid once for the last state: `state = number`; 0 by default."
    )
    discount: Probability = Field(1.0, description="Discount factor per step.")


class PaidStates(Table):
    """A part of a reward; the parts add up. Constraints use a further reward by its name."""

    states: States | None = Field(None, description="The states in which it is paid; by default all.")
    action: Name | None = Field(None, description="The action that it is paid for; by default all.")
    reward: Finite = Field(description="Paid for each decision taken there.")
    last: bool = Field(False, description="Whether it is paid once for the last state instead.")


class ConstraintTable(_of(fields_of((*constraints.Return.keys, *constraints.Probability.keys)))):
    """A bound on an expected return, or with `formula` on the probability that a formula holds of the run."""


class MasksTable(_of(fields_of(Masks.keys))):
    """The agent also chooses, with each action, which sensor of the observer is masked in the next step, or none."""


QUERIES = Key("queries", PolicyFile, "A file of queries, found in the problem without this key, or `uniform`.", None)


class QueryingTable(_of(fields_of((*Querying.keys, QUERIES)))):
    """An observer that asks one sensor at each of the times 0 … T, or none: the problem is then its own, and its actions are
    the queries. Its goal is `goal = "transparent"` in `[solve]`. With `queries` the problem is that of the one who is
    observed, against these queries."""


class ModelFile(Table):
    """A model from a file: `.pomdp` (Cassandra), `.npz` (NumPy), `.drn`, `.prism`, `.nm`, `.pm`, or the format of a package."""

    path: str = Field(
        min_length=1,
        max_length=1000,
        description="The file, inside the scenario's folder.",
    )
    constants: dict[Name, Constant] = Field({}, description="Constants of a PRISM program: `N = 5`.")
    reward_model: Name | None = Field(None, description="The rewards to use of a PRISM program or DRN file.")
    options: dict[Name, Constant] = Field({}, description="Further options of the format (`veil show formats`).")
    initial: Start | None = Field(None, description="Start, instead of the file's; as in `[graph]`.")
    rewards: list[PaidStates] = Field(
        [], description="Rewards, instead of the file's; with `last`, instead of those that it has for the last state."
    )
    discount: Probability | None = Field(None, description="Discount factor, instead of the file's.")


class Differences(Table):
    """A model as it differs from that of the scenario: a key replaces the same key of `[grid]`, `[graph]` or `[file]`."""

    grid: Grid | None = Field(None, description="Differences from the scenario's table.")
    graph: Graph | None = Field(None, description="Differences from the scenario's table.")
    file: ModelFile | None = Field(None, description="Differences from the scenario's table.")


class OneOfSeveral(Differences):
    """One of the models that the secret `which_model` distinguishes.

    A key in its `grid`, `graph` or `file` replaces the same key of `[grid]`, `[graph]` or `[file]`, where everything that the
    models have in common is given once. States, actions, walls and sensors must be the same for all models.
    """

    name: Name | None = Field(None, description="The name of this value of the secret; by default `model 0`, ….")
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="Its probability relative to the others; for all models or none."
    )


class StateSensor(Table):
    """A sensor over states, for models that are not drawn. The key is its name in the observations."""

    states: States = Field(description="Its range.")
    detection: Probability = Field(0.9, description="Probability of a report if the agent is in range.")
    false_alarm: Probability = Field(0.0, description="Probability of a report if it is not.")


class ObserverTable(Table):
    """What the observer sees: the sensors of the grid, sensors over states, or tables of probabilities.

    `noise` and the keys that other packages add are features. They are applied in the order of the file, before `times` and
    `untimed`.
    """

    model_config = ConfigDict(extra="allow")  # whose names `read_features` checks

    sees_actions: bool = Field(False, description="Whether the observer also sees each action.")
    sees_initial: bool = Field(True, description="Whether it receives an observation at time 0.")
    sensors: dict[Name, StateSensor] = Field({}, max_length=MOST_SENSORS, description="Sensors over states, by name.")
    readings: Literal["independent", "single"] = Field("independent", description="For `sensors`, as in `[grid]`.")
    emissions: dict[Name, Emission] | None = Field(
        None,
        description='What each state emits: `state = "observation"`, or `state = { observation = probability, … }`.',
    )
    action_emissions: dict[Name, dict[Name, Emission]] | None = Field(
        None,
        description="What each action emits with the state that it led to: `action.state = …`. There is no"
        " observation at time 0, unless `emissions_at` has one.",
    )
    variables: Annotated[list[Name], Field(max_length=16)] | None = Field(
        None, description="The variables that the observer sees, as `x=3, door=open`."
    )
    observations: list[Name] | None = Field(
        None, description="The observations in order; by default as they are named."
    )
    rest: Name | None = Field(
        None,
        description="The observation that gets the missing probability of a row, or all of a missing row.",
    )
    silent: Name | None = Field(None, description="The observation if no sensor reports.")
    times: Times | None = Field(
        None,
        description="When observations are received; at other times it is the silent one, or `unobserved`. By default"
        " always.",
    )
    emissions_at: dict[Name, dict[Name, Emission]] = Field(
        {},
        max_length=1000,
        description="Other `emissions` at single times, `3` or `end`. With `action_emissions`: what states emit at"
        " time 0.",
    )
    untimed: bool = Field(False, description="Whether the observer has no clock: silent steps are erased.")
    mutes: dict[Name, dict[Name, Name]] = Field(
        {}, description="What the reports of a sensor become if it is switched off: `sensor.observation = …`."
    )


class AgentTable(ObserverTable):
    """What the agent sees: `sees`; or, with the keys of `[observer]`, sensors of its own, and not its state."""

    sees: Sight | None = Field(
        None,
        description='What it sees; by default `"state"`.',
    )


class SecretForm(Table):
    """The table of a secret: `kind`, and the keys of that kind."""

    kind: str = Field(description="Which secret.")


@cache
def secret_form(kind: str) -> type[SecretForm]:
    """The form of a `[secret]` table of one kind, from the keys that its class declares.

    **Raises:** `InputError` for an unknown kind, `PluginError` where the package that adds it cannot be loaded.
    """
    return declared_form(
        SECRETS.get(kind), "Secret", SecretForm, kind=(Literal[kind], Field(description="Which secret."))
    )


@cache
def feature_form(kind: str) -> type[Table]:
    """The form of the keys of a feature of observers, as its class declares them.

    **Raises:** `PluginError` if the package that adds it cannot be loaded.
    """
    return declared_form(OBSERVERS.get(kind), "Feature", Table)


FORMS[Observer], FORMS[Secret] = ObserverTable, dict[str, object]


class BeliefTable(_of(fields_of(Belief.keys), Differences)):
    """What an observer assumes, rightly or not. A key in its `grid`, `graph` or `file` replaces that of the scenario."""


FORMS[Belief] = BeliefTable


class PairTable(_of(fields_of(Pair.keys))):
    """A further secret or observer over the same model, with bounds on what is hidden of the one from the other."""


class LayoutTable(Table):
    """Where the states of a `[graph]` or `[file]` lie in a picture; no number depends on it."""

    rows: int = Field(ge=1, le=MOST_CELLS, description="Number of rows.")
    columns: int = Field(ge=1, le=MOST_CELLS, description="Number of columns.")
    cells: Annotated[list[Cell], Field(max_length=MOST_CELLS)] = Field(
        description="`[row, column]` of each state, row 0 at the top; a cell without a state is a wall."
    )
    cell_size: Finite | None = Field(None, description="As in `[grid]`.")
    origin: Position = Field((0.0, 0.0), description="As in `[grid]`.")
    yaw: Finite = Field(0.0, description="As in `[grid]`.")


class ScenarioFile(Table):
    """A problem: a model, an observer, a secret, a horizon and a threshold on the return."""

    name: Name | None = Field(None, description="Name in results; the file's name by default.")
    description: str = Field("", max_length=100_000, description="Free text.")
    horizon: int = Field(ge=0, le=MOST_DECISIONS, description="The number of decisions T; states are s_0 … s_T.")
    min_return: Threshold | None = Field(
        None,
        description="Threshold on the expected return: a number, or a percentage of the range of returns such as"
        ' `"80%"`. By default none.',
    )
    return_over: Literal["horizon", "infinite"] = Field(
        "horizon", description="Over the horizon, or over an infinite one (discount below 1)."
    )
    grid: Grid | None = Field(None, description="The model as a grid.")
    graph: Graph | None = Field(None, description="The model as a graph.")
    file: ModelFile | None = Field(None, description="The model from a file.")
    layout: LayoutTable | None = Field(
        None, description="Where the states of a `[graph]` or `[file]` lie in a picture."
    )
    models: Annotated[list[OneOfSeveral], Field(max_length=MOST_MODELS)] = Field(
        [], description="Several models over the same states, for the secret `which_model`."
    )
    observer: ObserverTable | None = Field(None, description="What the observer sees.")
    agent: AgentTable | None = Field(None, description="What the agent sees; by default its state.")
    observers: Annotated[list[ObserverTable], Field(max_length=MOST_OBSERVERS)] = Field(
        [], description="Further observers, who share what they see with `[observer]`."
    )
    secret: dict[str, object] | None = Field(
        None,
        description="What the observer wants to know; in a grid by default: is the last cell a secret cell?",
    )
    rewards: Annotated[dict[Name, list[PaidStates]], Field(max_length=MOST_REWARDS)] = Field(
        {}, description="Further rewards, for constraints."
    )
    constraints: Annotated[list[ConstraintTable], Field(max_length=MOST_CONSTRAINTS)] = Field(
        [], description="Constraints besides `min_return`."
    )
    pairs: Annotated[list[PairTable], Field(max_length=MOST_PAIRS)] = Field(
        [], description="Further pairs of a secret and an observer."
    )
    masks: MasksTable | None = Field(None, description="Sensors that the agent can mask.")
    querying: QueryingTable | None = Field(None, description="Queries of an observer that chooses where to look.")
    solve: Settings | None = Field(None, description="Options of the solver.")


def schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of a scenario file, for editors and `veil show schema`; installed packages included."""
    forms = [secret_form(kind) for kind in SECRETS]
    field = ScenarioFile.model_fields["secret"]
    secret: Any = Annotated[Union[*forms], Discriminator("kind")]
    own: Any = (secret | None, PairTable.model_fields["secret"])
    pair: Any = create_model("PairTable", __base__=PairTable, __doc__=PairTable.__doc__, secret=own)
    pairs = (list[pair], ScenarioFile.model_fields["pairs"])
    memory: Any = Name | Union[*map(memory_form, MEMORIES)]
    memory = (memory, Settings.model_fields["memory"])
    solve: Any = create_model("Settings", __base__=Settings, __doc__=Settings.__doc__, memory=memory)
    more = {"pairs": pairs, "solve": (solve | None, ScenarioFile.model_fields["solve"])}
    whole = create_model(
        "Scenario", __base__=ScenarioFile, __doc__=ScenarioFile.__doc__, secret=(secret, field), **more
    )
    found = whole.model_json_schema()
    for kind in OBSERVERS:
        _add_feature(found, kind)
    return published("veil scenario", _without_null(found))


def _add_feature(schema: JsonSchemaValue, kind: str) -> None:
    """Add the key of a feature of observers to the table of an observer."""
    form, feature = feature_form(kind), OBSERVERS.get(kind)
    table = form.model_json_schema()
    schema["$defs"] |= table.pop("$defs", {})
    if not feature.given_alone():
        schema["$defs"][form.__name__] = table
    alone = {"$ref": f"#/$defs/{form.__name__}", "description": " ".join((form.__doc__ or "").split())}
    for observer in (schema["$defs"]["ObserverTable"], schema["$defs"]["AgentTable"]):
        observer["properties"][kind] = table["properties"][kind] if feature.given_alone() else alone
        observer["additionalProperties"] = False


def _without_null(part: Any) -> Any:
    """The schema without the values that TOML cannot write: a key that is not given is left out."""
    if isinstance(part, list):
        return [_without_null(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: _without_null(value) for key, value in part.items() if not (key == "default" and value is None)}
    choices = [choice for choice in part.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        return choices[0] | {key: value for key, value in part.items() if key != "anyOf"}
    return part | ({"anyOf": choices} if choices else {})
