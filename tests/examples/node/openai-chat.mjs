import OpenAI from "openai";
import { CutOff, Declined, EMPTY, JSON_INSTRUCTION, Malformed, broken, parts, text, told, wait, whole } from "./common.mjs";

const STOP = { stop: "end_turn", tool_calls: "tool_use", length: "max_tokens", content_filter: "refusal" };

const client = ({ base_url, api_key }) => new OpenAI({ baseURL: base_url, apiKey: api_key, maxRetries: 0 });

function content(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  if (part.type === "image") {
    return { type: "image_url", image_url: { url: part.uri ?? `data:${part.media_type};base64,${part.data}` } };
  }
  throw new Declined(part.type, "this example sends text and pictures");
}

function messages(message) {
  const results = parts(message, "tool_result");
  const said = results.map((part) => {
    if (part.parts?.some((each) => each.type !== "text")) throw new Declined("image-results", "a tool message is text");
    return { role: "tool", tool_call_id: short(part.call_id), content: told(part) };
  });
  const others = message.parts.filter((part) => part.type !== "tool_result");
  if (message.role === "user") {
    if (!others.length) return said;
    const plain = others.length === 1 && others[0].type === "text";
    return [...said, { role: "user", content: plain ? others[0].text : others.map(content) }];
  }
  const calls = parts(message, "tool_call").map((part) => ({
    id: short(part.id),
    type: "function",
    function: { name: part.name, arguments: part.arguments_json },
  }));
  const refusal = parts(message, "refusal").map((part) => part.text).join("");
  if (!calls.length && !text(message) && !refusal) return [];
  return [
    {
      role: "assistant",
      content: text(message) || null,
      ...(refusal && { refusal }),
      ...(calls.length && { tool_calls: calls }),
    },
  ];
}

/** Ids of other APIs may be longer than the forty characters that this one takes. */
const short = (id) => (id.length <= 40 ? id : `call_${id.slice(-20)}${id.length}`);

function body({ model, request }) {
  const { tools = [], response_format: format, tool_choice: choice, thinking } = request;
  if (thinking && tools.length) throw new Declined("thinking", "these models take tools only without reasoning");
  const json = format?.type === "json_mode" && !request.messages.some((each) => /json/i.test(text(each)));
  return {
    model: request.model || model,
    messages: [
      ...(request.system ? [{ role: "developer", content: request.system }] : []),
      ...(json && !/json/i.test(request.system ?? "") ? [{ role: "developer", content: JSON_INSTRUCTION }] : []),
      ...request.messages.flatMap(messages),
    ],
    ...(request.max_tokens && { max_completion_tokens: request.max_tokens }),
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { top_p: request.top_p }),
    ...(request.stop && { stop: request.stop }),
    ...(tools.length && {
      tools: tools.map(({ name, description, parameters }) => ({
        type: "function",
        function: { name, description, parameters: { ...EMPTY, ...parameters } },
      })),
      reasoning_effort: "none",
    }),
    ...(thinking && { reasoning_effort: thinking.effort }),
    ...(choice && { tool_choice: choice.name ? { type: "function", function: { name: choice.name } } : choice }),
    ...(format?.type === "json_mode" && { response_format: { type: "json_object" } }),
    ...(format?.type === "json_schema" && {
      response_format: { type: "json_schema", json_schema: { name: format.name ?? "response", schema: format.schema } },
    }),
  };
}

function response(reply) {
  const choice = reply?.choices?.[0];
  if (!choice?.message) throw new Malformed("the answer has no message");
  const { message, finish_reason: raw } = choice;
  const calls = (message.tool_calls ?? []).map((call) => ({
    type: "tool_call",
    id: call.id,
    name: call.function.name,
    arguments_json: call.function.arguments || "{}",
  }));
  const kept = calls.filter((call) => whole(call.arguments_json));
  let stop = message.refusal ? "refusal" : (STOP[raw] ?? "unknown");
  if (kept.length < calls.length && stop !== "max_tokens") stop = "malformed_call";
  return {
    message: {
      role: "assistant",
      parts: [
        ...(message.content ? [{ type: "text", text: message.content }] : []),
        ...(message.refusal ? [{ type: "refusal", text: message.refusal }] : []),
        ...kept,
      ],
    },
    stop_reason: stop,
    raw_stop_reason: raw,
    model: reply.model,
    usage: usage(reply.usage),
  };
}

const usage = (used) =>
  used
    ? {
        input_tokens: used.prompt_tokens,
        output_tokens: used.completion_tokens,
        cache_read_tokens: used.prompt_tokens_details?.cached_tokens,
        cache_write_tokens: used.prompt_tokens_details?.cache_write_tokens,
        reasoning_tokens: used.completion_tokens_details?.reasoning_tokens,
      }
    : {};

/** The call that a piece of a stream belongs to; nothing if it begins one. Some servers leave the index out, count from
 * one, give every call the same, or make an id for each piece; a piece without a name never begins a call. */
function owner(calls, { index, id, function: { name, arguments: text } = {} }) {
  const near = calls.filter((call) => index == null || call.index === index);
  const last = near.at(-1);
  if (id && last?.id) return near.findLast((call) => call.id === id) ?? (name ? undefined : last);
  const another = name && (name !== last?.function.name || (text && whole(last.function.arguments)));
  return another ? undefined : last;
}

async function stream(params, event) {
  const asked = { ...body(params), stream: true, stream_options: { include_usage: true } };
  const message = { content: "", refusal: "", tool_calls: [] };
  const reply = { choices: [{ message, finish_reason: null }] };
  for await (const chunk of await client(params.endpoint).chat.completions.create(asked)) {
    reply.model = chunk.model;
    if (chunk.usage) reply.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (choice?.finish_reason) reply.choices[0].finish_reason = choice.finish_reason;
    const { content: said, refusal, tool_calls: calls = [] } = choice?.delta ?? {};
    if (said) event({ type: "text_delta", text: said });
    message.content += said ?? "";
    message.refusal += refusal ?? "";
    for (const piece of calls) {
      let call = owner(message.tool_calls, piece);
      if (!call) {
        call = { index: piece.index, id: piece.id, function: { name: piece.function.name, arguments: "" } };
        message.tool_calls.push(call);
        event({ type: "tool_call_start", index: message.tool_calls.indexOf(call), id: call.id, name: call.function.name });
      }
      if (piece.function?.arguments) {
        call.function.arguments += piece.function.arguments;
        event({ type: "arguments_delta", index: message.tool_calls.indexOf(call), text: piece.function.arguments });
      }
    }
  }
  if (!reply.choices[0].finish_reason) throw new CutOff("the stream ended without a finish_reason");
  message.tool_calls.forEach((call, index) => {
    if (whole(call.function.arguments)) event({ type: "tool_call_end", index });
  });
  return response(reply);
}

function failure(error) {
  if (error instanceof OpenAI.APIConnectionError) return { kind: "connection_failed" };
  if (error instanceof OpenAI.APIError) {
    const code = error.code ?? error.type ?? null;
    const status = error.status ?? (/rate_limit/.test(code) ? 429 : 500); // inside a stream there is none
    return { kind: "provider_error", status, code, retry_after: wait(error.headers) };
  }
  return broken(error);
}

export default {
  capabilities: [
    "system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema",
    "json-with-tools", "vision", "history", "truncation", "streaming",
  ],
  chat: async (params) => response(await client(params.endpoint).chat.completions.create(body(params))),
  stream,
  failure,
};
