import { ApiError, GoogleGenAI } from "@google/genai";
import { CutOff, Declined, Malformed, broken, kept, own } from "./common.mjs";

const API = "gemini";
const STOP = { STOP: "end_turn", MAX_TOKENS: "max_tokens", CONTINUATION: "pause", OTHER: "error" };
const REFUSED = /^(SAFETY|RECITATION|BLOCKLIST|PROHIBITED_CONTENT|SPII|LANGUAGE|MODEL_ARMOR|ESCALATION|IMAGE_.*)$/;
const BROKEN = /^(MALFORMED_|UNEXPECTED_TOOL_CALL|TOO_MANY_TOOL_CALLS|MISSING_THOUGHT_SIGNATURE)/;
const MODES = { auto: "AUTO", none: "NONE", required: "ANY" };
const BUDGETS = { low: 1024, medium: 8192, high: 24576 };
const STAND_IN = btoa("skip_thought_signature_validator"); // for calls that the model did not make

const client = ({ base_url, api_key }) =>
  new GoogleGenAI({ apiKey: api_key, vertexai: false, httpOptions: { baseUrl: base_url, retryOptions: { attempts: 1 } } });

const before3 = (model) => /gemini-(1|2)\b/.test(model);

function wire(part, ids, model) {
  const fields = own(part, API);
  switch (part.type) {
    case "text":
    case "refusal":
      return part.text || Object.keys(fields).length ? [{ text: part.text, ...fields }] : [];
    case "thinking":
      return Object.keys(fields).length ? [{ text: part.text, thought: true, ...fields }] : [];
    case "tool_call": {
      const id = part.provider_metadata?.harness?.synthesised_id ? {} : { id: part.id };
      ids.set(part.id, id);
      return [{ functionCall: { ...id, name: part.name, args: part.arguments }, ...fields }];
    }
    case "tool_result": {
      const media = (part.parts ?? []).filter((each) => each.type !== "text").flatMap((each) => wire(each, ids, model));
      if (media.length && before3(model)) throw new Declined("image-results", `${model} takes JSON only`);
      const value = part.parts ? part.text : part.content;
      const plain = value !== null && typeof value === "object" && !Array.isArray(value);
      const response = part.is_error ? { error: value } : plain ? value : { output: value };
      const said = { ...(ids.get(part.call_id) ?? { id: part.call_id }), name: part.name, response };
      return [{ functionResponse: { ...said, ...(media.length && { parts: media }) } }];
    }
    case "image":
    case "file":
      return [
        part.uri
          ? { fileData: { mimeType: part.media_type, fileUri: part.uri } }
          : { inlineData: { mimeType: part.media_type, data: part.data } },
      ];
    case "opaque":
      return part.api === API ? [part.raw] : [];
  }
}

function contents(messages, model) {
  const ids = new Map();
  return messages.flatMap(({ role, parts }) => {
    const results = parts.filter((part) => part.type === "tool_result");
    const others = parts.filter((part) => part.type !== "tool_result");
    const made = [...results, ...others].flatMap((part) => wire(part, ids, model));
    const first = made.find((part) => part.functionCall);
    if (first && !before3(model)) first.thoughtSignature ??= STAND_IN;
    return made.length ? [{ role: role === "user" ? "user" : "model", parts: made }] : [];
  });
}

function asked({ model: standard, request }) {
  const model = request.model || standard;
  const { tools = [], tool_choice: choice, response_format: format, thinking } = request;
  if (format && tools.length && before3(model)) throw new Declined("json-with-tools", `${model} refuses it`);
  const functionDeclarations = tools.map(({ name, description, parameters }) => ({
    name,
    description,
    ...(Object.keys(parameters.properties ?? {}).length && { parametersJsonSchema: parameters }),
  }));
  const offered = [
    ...(tools.length ? [{ functionDeclarations }] : []),
    ...(request.provider_metadata?.[API]?.tools ?? []),
  ];
  const level = before3(model)
    ? { thinkingBudget: thinking?.budget_tokens ?? BUDGETS[thinking?.effort] }
    : { thinkingLevel: thinking?.effort?.toUpperCase() };
  const mode = choice?.name ? { mode: "ANY", allowedFunctionNames: [choice.name] } : { mode: MODES[choice] };
  return {
    model,
    contents: contents(request.messages, model),
    config: {
      ...(request.system && { systemInstruction: { parts: [{ text: request.system }] } }),
      ...(offered.length && { tools: offered }),
      ...(choice && offered.length && { toolConfig: { functionCallingConfig: mode } }),
      ...(request.max_tokens && { maxOutputTokens: request.max_tokens }),
      ...(request.temperature != null && { temperature: request.temperature }),
      ...(request.top_p != null && { topP: request.top_p }),
      ...(request.stop && { stopSequences: request.stop }),
      ...(format && { responseMimeType: "application/json" }),
      ...(format?.type === "json_schema" && { responseJsonSchema: format.schema }),
      ...(thinking && { thinkingConfig: { includeThoughts: true, ...level } }),
    },
  };
}

function response(params, reply) {
  const candidate = reply.candidates?.[0];
  const blocked = reply.promptFeedback?.blockReason;
  if (!candidate && !blocked) throw new Malformed("there is neither a candidate nor a reason why there is none");
  const before = params.request.messages.flatMap((message) => message.parts.filter((part) => part.type === "tool_call"));
  let made = before.length;
  const parts = (candidate?.content?.parts ?? []).map((raw) => {
    const { text, thought, functionCall, ...rest } = raw;
    if (text !== undefined) return { type: thought ? "thinking" : "text", text, ...kept(API, rest) };
    if (!functionCall?.name || functionCall.willContinue) return { type: "opaque", api: API, raw };
    const { id, name, args = {} } = functionCall;
    const marked = id ? {} : { harness: { synthesised_id: true } };
    const metadata = { ...kept(API, rest).provider_metadata, ...marked };
    return { type: "tool_call", id: id ?? `call-${made++}`, name, arguments: args, provider_metadata: metadata };
  });
  const raw = candidate?.finishReason ?? blocked ?? null;
  let stop = STOP[raw] ?? (REFUSED.test(raw) || blocked ? "refusal" : BROKEN.test(raw) ? "malformed_call" : "unknown");
  if (stop === "end_turn" && parts.some((part) => part.type === "tool_call")) stop = "tool_use";
  const used = reply.usageMetadata ?? {};
  return {
    message: { role: "assistant", parts },
    stop_reason: stop,
    raw_stop_reason: raw,
    model: reply.modelVersion,
    usage: {
      input_tokens: sum(used.promptTokenCount, used.toolUsePromptTokenCount),
      output_tokens: sum(used.candidatesTokenCount, used.thoughtsTokenCount),
      cache_read_tokens: used.cachedContentTokenCount,
      reasoning_tokens: used.thoughtsTokenCount,
    },
  };
}

const sum = (...counts) => (counts.some((each) => each != null) ? counts.reduce((a, b) => (a ?? 0) + (b ?? 0)) : null);

async function stream(params, event) {
  const reply = { candidates: [{ content: { parts: [] } }] };
  const { parts } = reply.candidates[0].content;
  const before = params.request.messages.flatMap((message) => message.parts.filter((part) => part.type === "tool_call"));
  let calls = 0;
  for await (const chunk of await client(params.endpoint).models.generateContentStream(asked(params))) {
    reply.modelVersion ??= chunk.modelVersion;
    if (chunk.usageMetadata) reply.usageMetadata = chunk.usageMetadata;
    if (chunk.promptFeedback) reply.promptFeedback = chunk.promptFeedback;
    const candidate = chunk.candidates?.[0];
    if (candidate?.finishReason) reply.candidates[0].finishReason = candidate.finishReason;
    for (const part of candidate?.content?.parts ?? []) {
      const last = parts.at(-1);
      const { text, thought, functionCall, ...rest } = part;
      if (text) event({ type: thought ? "thinking_delta" : "text_delta", text });
      if (functionCall) {
        const index = calls++;
        const id = functionCall.id ?? `call-${before.length + index}`;
        event({ type: "tool_call_start", index, id, name: functionCall.name });
        event({ type: "arguments_delta", index, text: JSON.stringify(functionCall.args ?? {}) });
        event({ type: "tool_call_end", index });
      }
      const joins = text !== undefined && last?.text !== undefined && !last.functionCall && !last.thought === !thought;
      if (joins && !last.thoughtSignature) Object.assign(last, rest, { text: last.text + text });
      else if (text !== "" || Object.keys(rest).length) parts.push({ ...part });
    }
  }
  const { finishReason } = reply.candidates[0];
  if (!finishReason && !reply.promptFeedback?.blockReason) throw new CutOff("the stream ended without a finishReason");
  return response(params, reply);
}

/** The SDK's error has the body as its message, and no headers. */
function failure(error) {
  if (!(error instanceof ApiError)) return broken(error);
  let said = {};
  try {
    said = JSON.parse(error.message.slice(error.message.indexOf("{"))).error ?? {};
  } catch {}
  const delay = said.details?.find((each) => each.retryDelay)?.retryDelay;
  const status = error.status >= 400 ? error.status : (said.code ?? 500);
  return { kind: "provider_error", status, code: said.status ?? null, retry_after: delay ? parseFloat(delay) : null };
}

export default {
  capabilities: [
    "system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema",
    "json-with-tools", "vision", "image-results", "thinking", "provider-tools", "history", "truncation", "streaming",
  ],
  chat: async (params) => response(params, await client(params.endpoint).models.generateContent(asked(params))),
  stream,
  failure,
};
