import Anthropic from "@anthropic-ai/sdk";
import { CutOff, Declined, EMPTY, JSON_INSTRUCTION, Malformed, broken, kept, own, wait, whole } from "./common.mjs";

const API = "anthropic";
const STOP = {
  end_turn: "end_turn", tool_use: "tool_use", max_tokens: "max_tokens", model_context_window_exceeded: "max_tokens",
  stop_sequence: "stop_sequence", refusal: "refusal", pause_turn: "pause",
};
const STATUS = {
  invalid_request_error: 400, authentication_error: 401, billing_error: 402, permission_error: 403, not_found_error: 404,
  request_too_large: 413, rate_limit_error: 429, api_error: 500, timeout_error: 504, overloaded_error: 529,
};

const client = ({ base_url, api_key }) => new Anthropic({ baseURL: base_url, apiKey: api_key, maxRetries: 0 });

/** Ids of other APIs may hold what this one refuses. */
const legal = (id) => id.replace(/[^a-zA-Z0-9_-]/g, (each) => `_${each.codePointAt(0).toString(16)}_`);

function block(part) {
  switch (part.type) {
    case "text":
    case "refusal":
      return part.text ? [{ type: "text", text: part.text, ...own(part, API) }] : [];
    case "thinking": {
      const fields = own(part, API);
      return Object.keys(fields).length ? [{ type: "thinking", thinking: part.text, ...fields }] : [];
    }
    case "tool_call":
      return [{ type: "tool_use", id: legal(part.id), name: part.name, input: part.arguments, ...own(part, API) }];
    case "tool_result":
      return [
        {
          type: "tool_result",
          tool_use_id: legal(part.call_id),
          content: part.parts ? part.parts.flatMap(block) : part.text,
          ...(part.is_error && { is_error: true }),
        },
      ];
    case "image": {
      const source = part.uri
        ? { type: "url", url: part.uri }
        : { type: "base64", media_type: part.media_type, data: part.data };
      return [{ type: "image", source }];
    }
    case "opaque":
      return part.api === API ? [part.raw] : [];
    default:
      throw new Declined(part.type, "this example does not send it");
  }
}

function closed(schema) {
  if (Array.isArray(schema)) return schema.map(closed);
  if (schema === null || typeof schema !== "object") return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return copy.type === "object" && copy.properties ? { additionalProperties: false, ...copy } : copy;
}

function body({ model, request }) {
  const { tools = [], tool_choice: choice, response_format: format, thinking, cache } = request;
  const mark = cache ? { cache_control: { type: "ephemeral" } } : {};
  const system = request.system ? [{ type: "text", text: request.system, ...mark }] : [];
  if (format?.type === "json_mode") system.push({ type: "text", text: JSON_INSTRUCTION });
  const offered = tools.map(({ name, description, parameters }, at) => ({
    name,
    description,
    input_schema: { ...EMPTY, ...parameters },
    ...(at === tools.length - 1 && mark),
  }));
  const provided = request.provider_metadata?.[API]?.tools ?? [];
  const form = format?.type === "json_schema" && { format: { type: "json_schema", schema: closed(format.schema) } };
  const output = { ...form, ...(thinking?.effort && { effort: thinking.effort }) };
  const every = [...offered, ...provided];
  const named = choice?.name ? { type: "tool", name: choice.name } : { type: choice === "required" ? "any" : choice };
  return {
    model: request.model || model,
    max_tokens: request.max_tokens ?? 4096,
    messages: request.messages
      .map(({ role, parts }) => ({ role, content: parts.flatMap(block) }))
      .filter(({ content }) => content.length),
    ...(system.length && { system }),
    ...(every.length && { tools: every }),
    ...(choice && every.length && { tool_choice: named }),
    ...(request.temperature != null && { temperature: request.temperature }),
    ...(request.top_p != null && { top_p: request.top_p }),
    ...(request.stop && { stop_sequences: request.stop }),
    ...(thinking && { thinking: { type: "adaptive" } }),
    ...(Object.keys(output).length && { output_config: output }),
  };
}

function part(wire) {
  const { type, ...fields } = wire;
  if (type === "text") {
    const { text, citations, ...rest } = fields;
    return { type, text, ...kept(API, citations ? { citations, ...rest } : rest) };
  }
  if (type === "thinking") {
    const { thinking, ...rest } = fields;
    return { type, text: thinking, ...kept(API, rest) };
  }
  if (type === "tool_use") {
    const { id, name, input, ...rest } = fields;
    return { type: "tool_call", id, name, arguments: input, ...kept(API, rest) };
  }
  return { type: "opaque", api: API, raw: wire };
}

function response(reply) {
  if (!Array.isArray(reply?.content)) throw new Malformed("the answer has no content");
  let blocks = reply.content;
  let stop = STOP[reply.stop_reason] ?? "unknown";
  if (stop === "max_tokens" && blocks.at(-1)?.type === "tool_use") blocks = blocks.slice(0, -1); // cut short
  const made = blocks.filter((each) => each.type !== "tool_use" || (each.input && typeof each.input === "object"));
  if (made.length < blocks.length) stop = "malformed_call";
  const used = reply.usage ?? {};
  const cached = (used.cache_read_input_tokens ?? 0) + (used.cache_creation_input_tokens ?? 0);
  return {
    message: { role: "assistant", parts: made.map(part) },
    stop_reason: stop,
    raw_stop_reason: reply.stop_reason,
    model: reply.model,
    usage: {
      input_tokens: used.input_tokens == null ? null : used.input_tokens + cached,
      output_tokens: used.output_tokens,
      cache_read_tokens: used.cache_read_input_tokens,
      cache_write_tokens: used.cache_creation_input_tokens,
      reasoning_tokens: used.output_tokens_details?.thinking_tokens,
    },
  };
}

async function stream(params, event) {
  let reply;
  let ended = false;
  const written = new Map(); // the arguments of the calls, by the index of their block
  const place = (index) => [...written.keys()].indexOf(index);
  for await (const said of await client(params.endpoint).messages.create({ ...body(params), stream: true })) {
    const at = said.index;
    const open = reply?.content[at];
    if (said.type === "message_start") reply = { ...said.message, content: [] };
    if (said.type === "message_stop") ended = true;
    if (said.type === "message_delta") {
      Object.assign(reply, said.delta);
      for (const [name, value] of Object.entries(said.usage ?? {})) if (value != null) reply.usage[name] = value;
    }
    if (said.type === "content_block_start") {
      reply.content[at] = { ...said.content_block };
      const { type, id, name } = said.content_block;
      if (type === "tool_use") {
        written.set(at, "");
        event({ type: "tool_call_start", index: place(at), id, name });
      }
    }
    if (said.type === "content_block_delta") {
      const { delta } = said;
      if (delta.type === "text_delta") {
        open.text += delta.text;
        event({ type: "text_delta", text: delta.text });
      } else if (delta.type === "thinking_delta") {
        open.thinking += delta.thinking;
        event({ type: "thinking_delta", text: delta.thinking });
      } else if (delta.type === "signature_delta") {
        open.signature = delta.signature;
      } else if (delta.type === "citations_delta") {
        open.citations = [...(open.citations ?? []), delta.citation];
      } else if (delta.type === "input_json_delta" && written.has(at)) {
        written.set(at, written.get(at) + delta.partial_json);
        if (delta.partial_json) event({ type: "arguments_delta", index: place(at), text: delta.partial_json });
      } else if (delta.type === "input_json_delta") {
        open.inputJson = (open.inputJson ?? "") + delta.partial_json;
      }
    }
    if (said.type === "content_block_stop" && written.has(at)) {
      open.input = whole(written.get(at)) ? JSON.parse(written.get(at) || "{}") : null;
    } else if (said.type === "content_block_stop" && open.inputJson !== undefined) {
      const { inputJson, ...rest } = open;
      reply.content[at] = { ...rest, input: JSON.parse(inputJson || "{}") };
    }
  }
  if (!ended) throw new CutOff("the stream ended before its message_stop");
  const answer = response(reply);
  for (const [at] of written) {
    if (answer.message.parts.some((each) => each.id === reply.content[at].id)) {
      event({ type: "tool_call_end", index: place(at) });
    }
  }
  return answer;
}

function failure(error) {
  if (error instanceof Anthropic.APIConnectionError) return { kind: "connection_failed" };
  if (error instanceof Anthropic.APIError) {
    const code = error.error?.error?.type ?? error.type ?? null;
    const status = error.status ?? STATUS[code] ?? 500; // inside a stream there is none
    return { kind: "provider_error", status, code, retry_after: wait(error.headers) };
  }
  return broken(error);
}

export default {
  capabilities: [
    "system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema",
    "json-with-tools", "vision", "image-results", "thinking", "cache-marks", "provider-tools", "history", "truncation",
    "streaming",
  ],
  chat: async (params) => response(await client(params.endpoint).messages.create(body(params))),
  stream,
  failure,
};
