// The protocol of adapter commands (harness help stdio), for wrappers of libraries. A wrapper passes its functions.

import { createHash } from "node:crypto";
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.cwd(), "here.js"));

/** Import a package that is installed where the command runs. */
export const load = (name) => import(pathToFileURL(require.resolve(name)).href);

/** Call a function that has only code of the library; `harness reproduce` reads the log of its name and arguments. */
export function call(ask, ...given) {
  const log = process.env.HARNESS_CALL_LOG;
  if (log) appendFileSync(log, JSON.stringify([ask.name, ...given]) + "\n");
  return ask(...given);
}

export class Declined extends Error {
  constructor(feature, reason) {
    super(reason);
    this.data = { kind: "unsupported", feature };
  }
}

export const parts = (message, type) => message.parts.filter((part) => part.type === type);
export const text = (message) => parts(message, "text").map((part) => part.text).join("");
export const EMPTY = { type: "object", properties: {} };

/** The id of a call, or another one if the API takes no longer ones. */
export const short = (id, longest) => (longest && id.length > longest ? `call_${createHash("sha256").update(id).digest("hex")}`.slice(0, longest) : id);

/** The library's own messages, by the number of messages before them. */
export class Memory {
  kept = new Map();
  keep(request, response, own) {
    this.kept.set(request.messages.length, { parts: plain(response.message.parts), own });
  }
  own(place, message) {
    const found = this.kept.get(place);
    return found && found.parts === plain(message.parts) ? found.own : undefined;
  }
}

const parsed = (part) => (part.arguments_json == null ? null : JSON.parse(part.arguments_json)); // spaces may differ
const plain = (made) => JSON.stringify(made.map((part) => [part.type, part.text, part.id, part.name, parsed(part)]));

/**
 * A response from what a library returned: its text, calls {id, name, input}, reason, raw reason, model and counts.
 * `isBroken` means that the library also returned a call whose arguments it could not read.
 */
export function response({ said, calls, isBroken, stop, raw, model, usage }) {
  const made = calls.map(({ id, name, input }) => ({ type: "tool_call", id, name, arguments_json: JSON.stringify(input ?? {}) }));
  return {
    message: { role: "assistant", parts: [...(said ? [{ type: "text", text: said }] : []), ...made] },
    stop_reason: isBroken && (stop === "end_turn" || stop === "tool_use") ? "malformed_call" : made.length && stop === "end_turn" ? "tool_use" : stop,
    raw_stop_reason: raw ?? null,
    model: model ?? null,
    usage,
  };
}

/** Statuses of the errors inside a stream, which have none of their own. */
const STATUS = { overloaded_error: 529, rate_limit_error: 429, rate_limit_exceeded: 429, api_error: 500, server_error: 500 };

/** The `data` of an exception: its status and code, a connection that failed, or an answer that cannot be read. */
export function failure(error) {
  const chain = [];
  for (let each = error; each && chain.length < 9; each = each.cause ?? each.lastError) chain.push(each);
  const known = chain.find((each) => (each.statusCode ?? each.status) >= 400);
  if (known) {
    const headers = new Headers(known.responseHeaders ?? known.headers ?? {});
    const [ms, seconds] = [headers.get("retry-after-ms"), headers.get("retry-after")];
    const wait = ms ? Number(ms) / 1000 : Number(seconds ?? NaN);
    const code = known.code ?? known.error?.type ?? known.data?.error?.type ?? null;
    const data = { kind: "provider_error", status: known.statusCode ?? known.status, code: typeof code === "string" ? code : null };
    return { ...data, retry_after: Number.isFinite(wait) ? wait : null };
  }
  const type = chain.map((each) => each.type ?? each.error?.type ?? each.code).find((each) => STATUS[each]);
  if (type) return { kind: "provider_error", status: STATUS[type], code: type };
  const words = chain.map((each) => `${each.name} ${each.code ?? ""} ${each.message}`).join(" | ");
  if (/fetch failed|terminated|APIConnection|ECONNRESET|UND_ERR|Premature|socket|Cannot connect/i.test(words)) {
    return { kind: "connection_failed" };
  }
  return error instanceof SyntaxError || /JSON|parse|validation|No output/i.test(words) ? { kind: "malformed_response" } : undefined;
}

/** Answer requests until standard input ends. Tools of `drive` are run by requests in the other direction. */
export async function serve({ name, api, capabilities, ownsLoop = false, chat, stream, drive, close }) {
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const waiting = new Map();
  let calls = 0;
  const run = (id) => (call) =>
    new Promise((resolve) => {
      waiting.set(`tool-${++calls}`, resolve);
      say({ id: `tool-${calls}`, method: "tool", params: { id, call } });
    });
  const answer = async ({ id, method, params }) => {
    const odd = params?.request?.tools?.map((tool) => tool.name).find((each) => !/^[a-zA-Z0-9_-]{1,64}$/.test(each));
    if (odd) throw new Declined(`the tool name ${odd}`, "APIs refuse it");
    if (method === "describe") return { name, api, capabilities, owns_loop: ownsLoop };
    if (method === "chat") return await chat(params);
    if (method === "stream") return await stream(params, (event) => say({ method: "event", params: { id, event } }));
    if (method === "drive") return (await drive(params, run(id))) ?? null;
    close?.();
    return null;
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const message = JSON.parse(line);
    if (!message.method) {
      waiting.get(message.id)?.(message.result);
      continue;
    }
    answer(message)
      .then((result) => say({ id: message.id, result }))
      .catch((error) => {
        const data = error.data?.kind ? error.data : failure(error);
        if (!data) console.error(error.stack);
        say({ id: message.id, error: { code: -32000, message: String(error.message ?? error), data } });
      });
  }
}
