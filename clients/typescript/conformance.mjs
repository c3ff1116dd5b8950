// The conformance program, which `npm run build:test` builds: `node conformance.mjs run|work …`. See test/conformance/main.ts.
import "./dist-test/conformance/main.js";
