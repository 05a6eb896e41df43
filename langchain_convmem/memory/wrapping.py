"""`memory.wrap(inner)`: a Runnable that remembers.

The order of a turn is its promise: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. A failed write is raised, never logged away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.graph import Graph
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from langchain_convmem.steps import arun, run
from langchain_convmem.streams import ClosingStreams, carried_through, closed, summed, unbroken
from langchain_convmem.turns.chain_shape import ChainShape, chain_shape
from langchain_convmem.turns.options import NAMESPACE, TurnOptions, TurnSettings
from langchain_convmem.turns.queue import TURN_QUEUE
from langchain_convmem.turns.replies import HeardReply, ReplyCollector
from langchain_convmem.turns.tracing import TurnTrace, stamped
from langchain_convmem.turns.turn import DictKeys, Turn

__all__ = ["RememberingRunnable"]


class RememberingRunnable(ClosingStreams, RunnableSerializable[Any, Any]):
    """A chain with a memory; made by `ConversationMemory.wrap`."""

    memory: Any = Field(exclude=True, repr=False)
    inner: Runnable[Any, Any]
    recall: bool = True
    recall_tokens: int | None = None
    recall_k: int | None = None
    history_tokens: int | None = None
    context_tokens: int | None = None
    reserved_tokens: int = 0
    remember: bool = True
    queue_timeout_s: float = 300.0
    profile: Any = Field(default=None, repr=False)
    user_id_key: SecretStr | None = Field(default=None, repr=False)
    input_key: str | None = None
    history_key: str | None = None
    output_key: str | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _fixed_shape: ChainShape | None = PrivateAttr(default=None)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Messages in any form, or a dict with them; None goes on with an open turn."""
        return str | HumanMessage | dict[str, Any] | list[Any] | None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Whatever the inner chain returns."""
        return self.inner.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a call may carry under `configurable`."""
        own = [
            _spec("thread_id", str, "The conversation; required, here or as session_id."),
            _spec("session_id", str, "Another name of thread_id."),
            _spec("user_id", str, "Whose lines are recalled."),
            _spec(NAMESPACE, TurnSettings, "What this call sets of the memory's options."),
        ]
        named = {spec.id for spec in own}
        return [*own, *(spec for spec in self.inner.config_specs if spec.id not in named)]

    def get_output_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """Return the schema of what the inner chain returns."""
        return self.inner.get_output_schema(config)

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """Return the chain as a graph: this memory first, then what it wraps."""
        graph = Graph()
        said = graph.add_node(self.get_input_schema(config))
        memory = graph.add_node(self, metadata=config.get("metadata") if config else None)
        graph.add_edge(said, memory)
        inner = self.inner.get_graph(config)
        inner.trim_first_node()
        first, _ = graph.extend(inner)
        if first is not None:
            graph.add_edge(memory, first)
        return graph

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return self._call_with_config(self._invoke, input, self._stamped(config), **kwargs)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamp = self._stamped(config)
        return await self._acall_with_config(self._ainvoke, input, stamp, **kwargs)

    def _invoke(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        with TURN_QUEUE.turn(turn.place, self.queue_timeout_s):
            payload = run(turn.begin())
            heard = HeardReply()
            output = self.inner.invoke(payload, heard.listen(config), **kwargs)
            run(turn.finish(output, heard.message))
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        async with TURN_QUEUE.aturn(turn.place, self.queue_timeout_s):
            payload = await arun(turn.begin())
            heard = HeardReply()
            output = await self.inner.ainvoke(payload, heard.listen(config), **kwargs)
            await carried_through(arun(turn.finish(output, heard.message)))
        return output

    # -- streams --------------------------------------------------------------------------------

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        turn = self._turn(summed(list(inputs)), config, run_manager.parent_run_id)
        with TURN_QUEUE.turn(turn.place, self.queue_timeout_s):
            payload = run(turn.begin())
            reply, heard = ReplyCollector(), HeardReply()
            try:
                chunks = self.inner.stream(payload, heard.listen(config), **kwargs)
                for chunk in unbroken(chunks):
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                run(turn.cut(reply))
                raise
            run(turn.complete(reply, heard.message))

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        parts = [part async for part in inputs]
        turn = self._turn(summed(parts), config, run_manager.parent_run_id)
        async with TURN_QUEUE.aturn(turn.place, self.queue_timeout_s):
            payload = await arun(turn.begin())
            reply, heard = ReplyCollector(), HeardReply()
            stream = self.inner.astream(payload, heard.listen(config), **kwargs)
            try:
                async for chunk in stream:
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                await carried_through(arun(turn.cut(reply)))
                raise
            finally:
                await closed(stream)
            await carried_through(arun(turn.complete(reply, heard.message)))

    # -- the turn -------------------------------------------------------------------------------

    @property
    def options(self) -> TurnOptions:
        """What holds for every turn, unless a call sets it."""
        return TurnOptions(
            **{field.name: getattr(self, field.name) for field in fields(TurnOptions)}
        )

    def _turn(self, value: Any, config: RunnableConfig, parent_run_id: Any) -> Turn:
        configurable = config.get("configurable", {})
        return Turn.of(
            self.memory,
            value,
            configurable,
            defaults=self.options,
            inner=self.inner,
            shape=self._shape(configurable),
            attempt_of=None if parent_run_id is None else str(parent_run_id),
            trace=TurnTrace(config),
            keys=DictKeys(self.input_key, self.history_key, self.output_key),
        )

    def _stamped(self, config: RunnableConfig | None) -> RunnableConfig:
        key = self.user_id_key
        return stamped(config, None if key is None else key.get_secret_value())

    def _shape(self, configurable: dict[str, Any]) -> ChainShape:
        if self._fixed_shape is not None:
            return self._fixed_shape
        shape = chain_shape(self.inner, configurable, self.profile)
        if shape.is_fixed:
            self._fixed_shape = shape
        return shape


def _spec(name: str, annotation: Any, text: str) -> ConfigurableFieldSpec:
    return ConfigurableFieldSpec(
        id=name, annotation=annotation, name=name, description=text, default=None, is_shared=True
    )
