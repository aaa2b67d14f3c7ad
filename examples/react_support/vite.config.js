import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const python = process.env.PYTHON_SERVER ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  // The hook and its libraries are one file; it is not large for what they are.
  build: { chunkSizeWarningLimit: 1000 },
  server: {
    // `npm run dev`: the page comes from Vite, everything else from the Python server.
    proxy: { "/api": python, "/v1": { target: python, ws: true } },
  },
});
