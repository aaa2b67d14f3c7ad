import { AgentProvider } from "@inngest/use-agent";
import { QueryClient } from "@tanstack/react-query";
import { StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";

import { Desk } from "./Desk.jsx";
import { transport } from "./threads.js";
import "./style.css";

// Who the server says the user is: with auth="local" everybody is "local". The hook shows only what
// is streamed for this user, and asks for the threads of nobody else.
const USER = "local";

createRoot(document.getElementById("root")).render(
  <StrictMode>
    <AgentProvider
      userId={USER}
      transport={transport}
      queryClient={new QueryClient()}
      debug={false}
    >
      <Suspense fallback={<p className="empty">Loading…</p>}>
        <Desk />
      </Suspense>
    </AgentProvider>
  </StrictMode>,
);
