// Serves fixtures.json with @copilotkit/aimock on a free loopback port and prints its origin; ends with its standard
// input, so that no server outlives its test. Usage: node server.mjs FOLDER [FIXTURES]; FOLDER holds node_modules.
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const { LLMock } = createRequire(join(process.argv[2], "/"))("@copilotkit/aimock");
const mock = new LLMock({ port: 0, host: "127.0.0.1" });
mock.loadFixtureFile(process.argv[3] ?? fileURLToPath(new URL("fixtures.json", import.meta.url)));
await mock.start();
console.log(mock.url);
process.stdin.resume().on("end", () => mock.stop());
