"""Settings of corpora: where they are, how they are mixed and cut into batches (`data.*`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seq2seq.config.checked import Checked, setting, unchecked
from seq2seq.errors import nearest

VARIANTS = (
    *("capitals", "plain", "heading", "unmarked", "chat", "joined", "typos", "symbols"),
    *("placeholders", "tags", "terms"),
)
LEFT_OUT = "; to leave a member out, mix without it (docs/reference/corpora.md)"


class CorpusConfig(Checked, section="data"):
    """Where parallel text is. It comes from one of these:

    - files: `train`, `val` and `test` each name a file, a glob, the stem of files inside `path`
      (`val` finds `val.parquet`, `val.tsv.gz`, `val.en` + `val.fr`, ...), or a list of these;
    - the hub, when `path` is null: `hub` names a data set, `train` and the others its splits;
    - `urls`, when `path` is null: files that are fetched once, and named as above;
    - `sacrebleu`, when `path` is null: `test` and the others name its test sets.
    """

    name: str = setting("files", "name of the corpus in folders and reports")
    path: str | None = setting(None, "folder that contains the files of train, val and test")
    origin: str | None = setting(None, "where to get the corpus; shown if it is missing")
    hub: str | None = setting(
        None, "data set of the Hugging Face hub, or a folder with the same layout"
    )
    hub_config: str | None = setting(
        None, "configuration of the data set, such as en-fr", only_with="hub"
    )
    hub_revision: str | None = setting(
        None, "branch, tag or commit of the data set", only_with="hub"
    )
    urls: list[str] = setting([], "addresses of files, which are downloaded into the cache")
    sacrebleu: bool = setting(
        False, "train, val and test name test sets of sacrebleu, such as wmt14/full"
    )
    train: Any = setting("train", "training text; null = none")
    val: Any = setting("val", "validation text; null = none")
    test: Any = setting("test", "test text; null = none")
    source_column: str = setting("en", "column of the source; a number for TSV without header")
    target_column: str = setting("fr", "column of the target; a number for TSV without header")
    where: dict[str, list[str]] = setting(
        {}, "read only rows with these values in other columns: {source: [tatoeba]}; {} = all rows"
    )
    variants: dict[str, float] = setting(
        {}, "share of the training pairs that are added once more in another form, such as "
        "capitals, typos or placeholders; see seq2seq/data/variants.py",
        choices=VARIANTS, at_least=0, at_most=1,
    )  # fmt: skip

    def rules(self) -> Iterator[str]:
        if self.source_column == self.target_column:
            yield (
                f"data.source_column and data.target_column are both {self.source_column!r}: "
                "a model that copies needs no training; name two columns"
            )
        places = [name for name in ("hub", "urls", "sacrebleu") if getattr(self, name)]
        if len(places) > 1:
            names = " and ".join(f"data.{name}" for name in places)
            yield f"{names} all say where the corpus is: give one of them"
        if self.where and self.path is None and (self.hub or self.sacrebleu):
            yield (
                "data.where chooses rows of files, and this corpus has none: leave it out, or "
                "download the files and name their folder, data.path=FOLDER"
            )
        for column, values in dict[str, Any](self.where).items():
            if not values:
                yield f"data.where.{column}=[] chooses no row: give values, or leave it out"


class DataConfig(CorpusConfig):
    """A corpus, or several of them mixed, and how it is prepared and cut into batches."""

    members: dict[str, CorpusConfig] = setting(
        {}, "corpora of a mixture, under names that you choose"
    )
    weights: dict[str, float] = setting(
        {}, "how often an epoch uses each member; 1 if not named", above=0, instead=LEFT_OUT
    )
    final_weights: dict[str, float] = setting(
        {}, "weights of the members in the last final_steps updates", above=0, instead=LEFT_OUT
    )
    final_steps: int | None = setting(
        None, "number of last updates that use final_weights; 0 = none", at_least=0
    )
    temperature: float = setting(
        1.0, "the share of a member is proportional to size ** (1 / temperature)",
        at_least=1, only_with="members",
    )  # fmt: skip
    cache: str | None = setting(
        None, "folder of prepared corpora; null = $SEQ2SEQ_CACHE, or ~/.cache/seq2seq"
    )
    store: str | None = setting(
        None, "URL with a copy of the cache, for machines that share no disk: s3://BUCKET/FOLDER"
    )
    verify: bool = setting(False, "compare hashes of sources and prepared files, not only sizes")
    processes: int | None = setting(
        None, "processes that prepare the corpus; null = one per core", at_least=1
    )
    max_tokens: int = setting(
        8192, "largest batch: source and target positions together, padding included", at_least=2
    )
    max_sentences: int | None = setting(None, "most pairs of a batch; null = no limit", at_least=1)
    length_multiple: int | None = setting(
        None,
        "round padded lengths up to a multiple; 8 suits tensor cores; 0 makes few different "
        "lengths; null = 0 for bf16 on a CPU, where torch compiles a kernel for each new shape, "
        "else 1",
        at_least=0,
    )
    num_workers: int = setting(
        0, "processes that make batches in the background; 0 = the training process makes them",
        at_least=0,
    )  # fmt: skip

    def corpora(self) -> dict[str, CorpusConfig]:
        """Return the members of the mixture; a member that is still a dict is not checked yet."""
        return {
            name: one
            if isinstance(one, CorpusConfig)
            else unchecked(CorpusConfig, {**vars(CorpusConfig()), **one})
            for name, one in dict[str, Any](self.members).items()
        }

    def rules(self) -> Iterator[str]:
        yield from super().rules()
        members = self.corpora()
        for name, corpus in members.items():
            for problem in corpus.problems():
                yield problem.replace("data.", f"data.members.{name}.")
        if members and self.train is not None:
            yield (
                f"data.train={self.train} and data.members both name the training text: "
                "set data.train=null to mix the members"
            )
        if members and self.val is None and self.test is None:
            yield from self._idle_place(members)
        if members and self.variants:
            yield (
                f"data.variants={self.variants} does nothing, since the members of "
                f"data={self.name} have variants of their own: set data.members.NAME.variants"
            )
        steps = max(0, self.final_steps or 0)
        for key in ("weights", "final_weights") if steps else ("weights",):
            for name in getattr(self, key):
                if name not in members:
                    yield f"data.{key}.{name} weighs no member: {nearest(name, members)}"
        if self.weights and self.temperature != 1:
            yield "data.weights and data.temperature both decide the mixture: give one of them"
        if self.final_steps is None and self.final_weights:
            yield (
                "data.final_weights count in the last updates of a run: say in how many, such "
                "as data.final_steps=500, or data.final_steps=0 for none"
            )
        if steps and not self.final_weights:
            yield (
                f"data.final_steps={steps} does nothing without other weights for these "
                "updates: give them, +data.final_weights.NAME=NUMBER, or set data.final_steps=0"
            )

    def _idle_place(self, members: Mapping[str, CorpusConfig]) -> Iterator[str]:
        """Yield settings of the mixture's own place that none of its members uses."""
        default = CorpusConfig()
        for name in ("path", "hub", "urls", "source_column", "target_column", "where"):
            shared = {corpus.path for corpus in members.values()} if name == "path" else ()
            value = getattr(self, name)
            if value != getattr(default, name) and value not in shared:
                yield (
                    f"data.{name}={value} does nothing, since the members of data={self.name} say "
                    "where its text is: choose another corpus, such as data=files, or set "
                    f"data.members.NAME.{name}"
                )


class EngineConfig(Checked, section="prepare"):
    """What runs the preparation of a corpus."""

    engine: str = setting(
        "local", "local: processes of this machine; ray: a Ray cluster", choices=("local", "ray")
    )
    address: str | None = setting(
        None, "address of the Ray cluster; auto = the cluster of this machine; null = start one on "
        "this machine",
        only_with="engine=ray",
    )  # fmt: skip
