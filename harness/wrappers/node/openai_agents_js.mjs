// OpenAI Agents for JavaScript as loops: node openai_agents_js.mjs responses | openai

import { call, load, serve, text } from "./stdio.mjs";

const kind = process.argv[2];
const api = { openai: "openai-chat", responses: "openai-responses" }[kind];

// --- calls of the library, which harness reproduce copies ---
const agents = await load("@openai/agents");
const { default: OpenAI } = await load("openai");
agents.setTracingDisabled(true);

async function drive(endpoint, model, conversation, run) {
  const client = new OpenAI({ baseURL: endpoint.base_url, apiKey: endpoint.api_key });
  const Model = kind === "openai" ? agents.OpenAIChatCompletionsModel : agents.OpenAIResponsesModel;
  const tools = conversation.tools.map(({ name, description, parameters }) =>
    agents.tool({
      name,
      description,
      parameters: { type: "object", properties: {}, additionalProperties: true, ...parameters },
      strict: false,
      execute: (input) => run(name, input),
    }),
  );
  const settings = conversation.max_tokens ? { modelSettings: { maxTokens: conversation.max_tokens } } : {};
  const agent = new agents.Agent({ name: "agent", instructions: conversation.system ?? undefined, model: new Model(client, model), tools, ...settings });
  let said = [];
  for (const turn of conversation.turns) {
    const asked = [...said, { role: "user", content: turn }];
    const result = await agents.run(agent, asked, { stream: conversation.stream ?? false, maxTurns: conversation.max_answers });
    if (conversation.stream) await result.completed;
    said = result.history;
  }
}
// --- end ---

async function started({ endpoint, model, conversation }, runTool) {
  const run = async (name, input) => {
    const result = await runTool({ type: "tool_call", id: "", name, arguments_json: JSON.stringify(input) });
    if (result.is_error) return `Error: ${result.text ?? result.content}`; // an exception's text does not reach the model
    return result.text ?? (typeof result.content === "string" ? result.content : JSON.stringify(result.content));
  };
  await call(drive, endpoint, model, { ...conversation, tools: conversation.tools ?? [], turns: conversation.turns.map(text) }, run);
}

const capabilities = ["system-prompt", "tools", "parallel-tool-calls", "history", "streaming", "retries"];
await serve({ name: `openai-agents-js-${kind}`, api, capabilities, ownsLoop: true, drive: started });
