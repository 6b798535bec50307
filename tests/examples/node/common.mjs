// What the four have in common: declining, failures by what the SDK raised, and the words of JSON mode.

export const JSON_INSTRUCTION = "Respond with a single JSON value and nothing else.";
export const EMPTY = { type: "object", properties: {} };

export class Declined extends Error {
  constructor(feature, reason) {
    super(reason);
    this.data = { kind: "unsupported", feature };
  }
}

export class Malformed extends Error {
  data = { kind: "malformed_response" };
}

export class CutOff extends Error {
  data = { kind: "connection_failed" };
}

/** Seconds that the provider asked to wait. */
export function wait(headers) {
  const ms = headers?.get?.("retry-after-ms");
  const seconds = ms ? Number(ms) / 1000 : Number(headers?.get?.("retry-after") ?? NaN);
  return Number.isFinite(seconds) ? seconds : null;
}

/** What an error of a network, a parser or an SDK without a status is. */
export function broken(error) {
  const causes = [];
  for (let each = error; each; each = each.cause) causes.push(`${each.name} ${each.code ?? ""} ${each.message}`);
  const told = causes.join(" | ");
  if (/fetch failed|terminated|APIConnection|ECONNRESET|UND_ERR|Premature|socket|other side closed/i.test(told)) {
    return { kind: "connection_failed" };
  }
  return error instanceof SyntaxError || /JSON/.test(told) ? { kind: "malformed_response" } : null;
}

export const parts = (message, type) => message.parts.filter((part) => part.type === type);
export const text = (message) => parts(message, "text").map((part) => part.text).join("");

/** The arguments of a call as they were written, if they are an object; else nothing: it may not be made. */
export function whole(json) {
  try {
    const value = JSON.parse(json || "{}");
    return value !== null && typeof value === "object" && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** What a result is to a model where the API has no field for an error. */
export const told = (result) => (result.is_error ? JSON.stringify({ error: result.content ?? result.text }) : result.text);

/** A part's wire fields of an API, which go back as they came. */
export const own = (part, api) => part.provider_metadata?.[api] ?? {};

export const kept = (api, fields) => (Object.keys(fields).length ? { provider_metadata: { [api]: fields } } : {});
