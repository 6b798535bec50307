"""Tool loops made from classes without a wrapper that keep their history and return tool calls to the caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.bridge.clients.annotations import members_of
from harness.bridge.clients.answer_fields import OwnCall
from harness.bridge.clients.client_makers import ClientMaker, maker_of
from harness.bridge.clients.loop_methods import (
    RESULT_METHOD,
    adding_methods,
    declared_parts,
    parameter_for_tools,
    prompt_methods,
    read_content,
    result_methods,
    result_parameters,
    results_parameter,
    resuming_method,
    takes_messages,
)
from harness.bridge.clients.loop_settings import (
    LoopSettings,
    client_with_settings,
    settings_of_constructor,
    takes_thinking,
    thinking_argument,
)
from harness.bridge.clients.message_classes import as_annotated
from harness.bridge.clients.methods import Method
from harness.bridge.clients.names import SYNONYMS, first_known
from harness.bridge.clients.requested_calls import RequestedCalls
from harness.bridge.clients.response_ids import response_id_argument
from harness.bridge.clients.sources import ClassSource
from harness.bridge.clients.submitted_results import SubmittedResults, content_of_result
from harness.bridge.clients.tool_declarations import declarations, declared_as
from harness.bridge.clients.tool_registration import Registrar
from harness.bridge.clients.turns import (
    answer_attributes,
    answer_of_turn,
    call_method,
    changed_attributes,
    check_texts,
    prompt_text,
)
from harness.bridge.clients.user_answers import confirmed_questions
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatResponse, ToolCall
from harness.model.protocols import Capability, Conversation, Endpoint


def recognise_session(value: object, api: str) -> SessionDrive | None:
    """Return a tool loop made from a class that keeps its history. Return `None` for other values.

    The class needs a method for a prompt, and a method that accepts the results of calls. `value` may also be a
    function that creates the client, or such a client. `api` is the API that the client calls.
    """
    maker = maker_of(value, api)
    if maker is None:
        return None
    methods = maker.methods
    prompts = prompt_methods(methods) or adding_methods(methods)
    found = result_methods(methods, maker.class_source)
    results = min(found, key=_rank_of_result_method, default=None)
    if not prompts or results is None or takes_messages(methods):
        return None
    declaring = next((each for each in methods if declared_parts(each)), None)
    return SessionDrive(maker, api, prompts[0], results, declaring, methods)


def _rank_of_result_method(method: Method) -> tuple[bool, bool]:
    return not RESULT_METHOD.search(method.path[0]), "stream" in method.path[0]


@dataclass(frozen=True, slots=True)
class SessionDrive:
    """Tool loop made from a class that keeps its history, with its methods for a prompt, for results and for tools.

    `form` is the format of the tools, if a trial has shown that it is not the one that the code suggests.
    """

    maker: ClientMaker
    api: str
    prompt: Method
    results: Method
    declaring: Method | None
    methods: Sequence[Method]
    form: str = ""

    @property
    def sentence(self) -> str:
        """The way in which the client is used, as text for the user."""
        return "which keeps its history"

    @property
    def sending(self) -> Method:
        """The method that sends the first request of a turn."""
        return self.prompt

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the loop."""
        found = LoopSettings(self.prompt, self.api).capabilities | settings_of_constructor(self).capabilities
        return found | {Capability.THINKING} if takes_thinking(self) else found

    @property
    def ignored(self) -> tuple[str, ...]:
        """The rules that the class cannot satisfy."""
        has_flag = "is_error" in self.results.source or "is_error" in result_parameters(self.results)
        parameter = results_parameter(self.results)
        if parameter is not None and not has_flag:
            has_flag = self._results_form(parameter).have_flag or self._parameter_for_failures(parameter) is not None
        return () if has_flag else ("error-flag",)

    def _results_form(self, parameter: str) -> SubmittedResults:
        """Return the form of the results in a parameter of the method that takes them."""
        code = ClassSource(self.maker.definition, self.maker.class_source, self.prompt.module)
        return SubmittedResults(self.results, parameter, code, self.api)

    def __call__(self, endpoint: Endpoint, model: str, conversation: Conversation) -> list[ChatResponse | None]:
        """Run a conversation. Return what the application gets for each turn."""
        check_texts(conversation)
        tools = self._tools(conversation)
        made_with, per_call = (
            {
                name: as_annotated(tools, each.hints.get(name))
                for name in [parameter_for_tools(each, self.maker.class_source)]
                if name and tools is not None
            }
            for each in (self.maker.constructor, self.prompt)
        )
        if tools is not None and not made_with and not per_call:
            raise Unsupported(RECOGNISED_CLIENT, "tools", "its constructor has no such argument")
        client, system = client_with_settings(self, endpoint, model, conversation, made_with)
        if self.declaring is not None:
            for tool in conversation.tools:
                Registrar(self.declaring, declared_parts(self.declaring))(client, tool, self.api)
        settings = LoopSettings(self.prompt, self.api).arguments(conversation, model)
        prompt = str(self.prompt.prompt)
        is_added = self.prompt in adding_methods(self.methods)
        answers: list[ChatResponse | None] = []
        answer: object = None
        examples = self.prompt.examples
        with (
            asyncio.Runner() as runner,
            confirmed_questions(),
            self.maker.opened(runner, client) as opened,
        ):
            requested = RequestedCalls(opened, self.methods, self.api)
            for turn in conversation.turns:
                before = answer_attributes(opened)
                given = {**examples, prompt: prompt_text(turn)}
                arguments = {**given, **system, **settings, **({} if made_with else per_call)}
                arguments |= response_id_argument(self.prompt, answer)
                answer = call_method(runner, opened, self.prompt, arguments)
                answer = self._resume(runner, opened) if is_added else answer
                for _ in range(conversation.max_answers):
                    if not (calls := requested.after(answer, turn)):
                        break
                    shared = {**examples, **system, **response_id_argument(self.results, answer)}
                    repeated = {each: value for each, value in shared.items() if each in self.results.names}
                    answer = self._submit(runner, opened, conversation, calls, repeated)
                changed = changed_attributes(before, answer_attributes(opened))
                answers.append(answer_of_turn(answer, turn, conversation, self.api, self.prompt, opened, changed))
        return answers

    def _tools(self, conversation: Conversation) -> list[dict[str, Any]] | None:
        """Return the declarations of the tools, unless there are none or a method declares each."""
        is_given = conversation.tools and self.declaring is None
        if not is_given:
            return None
        if self.form:
            return [declared_as(self.form, each) for each in conversation.tools]
        return declarations(conversation.tools, self.api, self.prompt.module)

    def _submit(
        self,
        runner: asyncio.Runner,
        client: object,
        conversation: Conversation,
        calls: Sequence[OwnCall],
        repeated: Mapping[str, object],
    ) -> object:
        """Run the tools, give their results to the client, and return its next answer. `repeated` are arguments that
        the method for a prompt got, too, and the id of the previous response.
        """
        method = self.results
        results = [_run_tool(conversation, each) for each in calls]
        if named := result_parameters(method):
            hint, uses = method.hints.get(named["content"]), read_content(method, named["content"])
            given = [{**each, "content": content_of_result(each, method, hint, self.api, uses)} for each in results]
            return self._continue(runner, client, _submit_each(runner, client, method, given))
        name = str(results_parameter(method))
        per_call = dict[str, object]()
        if (tools := first_known(SYNONYMS["tools"], method.names)) and conversation.tools:
            per_call[tools] = as_annotated(self._tools(conversation), method.hints.get(tools))
        formats = replace(conversation, tool_choice=None)
        per_call |= LoopSettings(method, self.api).arguments(formats, "")
        per_call |= thinking_argument(method, conversation.thinking)
        form, failures = self._results_form(name), self._parameter_for_failures(name)
        own = {failures: form.collect([each for each in results if each["is_error"]])} if failures else {}
        given = form.collect([each for each in results if not (failures and each["is_error"])])
        no_prompt = {str(method.prompt): ""} if method.prompt in method.required - {name} else {}
        given = {**method.examples, **repeated, **no_prompt, name: given, **own, **per_call}
        answer = call_method(runner, client, method, given)
        return answer if resuming_method(self.methods) is None else self._continue(runner, client, answer)

    def _continue(self, runner: asyncio.Runner, client: object, answer: object) -> object:
        """Return the answer of the method that takes results, or that of another method if it only keeps them."""
        is_answer = (answer is not None and answer is not client) or self.results.sends_requests
        return answer if is_answer else self._resume(runner, client)

    def _parameter_for_failures(self, results: str) -> str | None:
        """Return the parameter for the results of failed tools, in the same form as the other results, if any."""
        method = self.results
        name = first_known(("errors", "failures", "failed"), method.names - {results})
        hints = [[*members_of(method.hints.get(each or ""))] for each in (results, name)]
        return name if hints[0] and hints[0] == hints[1] else None

    def _resume(self, runner: asyncio.Runner, client: object) -> object:
        if (method := resuming_method(self.methods)) is None:
            raise Unsupported(RECOGNISED_CLIENT, "results of tools", "no method continues after them")
        return call_method(runner, client, method, {})


def _submit_each(
    runner: asyncio.Runner, client: object, method: Method, results: Sequence[Mapping[str, Any]]
) -> object:
    """Give a client the results of calls one by one, and return its last answer.

    If the calls have ids, the last result comes first, because a client must find the calls by their ids. A client that
    refuses that result gets the results in the order of the calls.
    """
    named = result_parameters(method)
    needs_key = "name" not in named
    keyed = [{**each, "id": each["id"] or (each["name"] if needs_key else None)} for each in results]
    arguments = [{name: each[key] for key, name in named.items()} for each in keyed]
    ids = [each["id"] for each in results if each["id"]]
    if len(results) > 1 and len({*ids}) == len(results) and named.keys() & {"id", "call"}:
        with contextlib.suppress(Exception):  # third-party code may refuse it in any way
            call_method(runner, client, method, arguments[-1])
            arguments = [*arguments[-2::-1]]
    return [call_method(runner, client, method, each) for each in arguments][-1]


def _run_tool(conversation: Conversation, made: OwnCall) -> dict[str, Any]:
    """Run the tool of a call. Return the result as text in `content`, and in `value` as JSON."""
    own, call_id, name, arguments = made
    tool = next((each for each in conversation.tools if each.name == name), None)
    found: dict[str, object] = {"call": own, "id": call_id or None, "name": name, "is_error": True}
    if tool is None or arguments is None:
        text = f"there is no tool {name}" if tool is None else "the arguments are no JSON object"
        return {**found, "content": text, "value": text}
    done = tool.run(ToolCall(call_id, name, arguments))
    value = done.text if isinstance(done.content, tuple) else done.content
    return {**found, "content": done.text, "value": value, "is_error": done.is_error}
