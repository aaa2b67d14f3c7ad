// MCP as it is meant to be: the package's converter of schemas gets the zod that the package has.

import { register } from "node:module";

export * from "zod";
export { ZodType as ZodSchema } from "zod";

const hooks = `
export const resolve = (name, context, next) =>
  name === "zod" && context.parentURL?.includes("/json-schema-to-zod/dist/")
    ? { url: "${import.meta.url}", shortCircuit: true }
    : next(name, context);
`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
globalThis.mcpShim = true;
