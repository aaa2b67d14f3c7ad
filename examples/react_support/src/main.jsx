import { AgentProvider } from "@inngest/use-agent";
import { QueryClient } from "@tanstack/react-query";
import { StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";

import { Desk } from "./Desk.jsx";
import { SignIn } from "./SignIn.jsx";
import { call, transport } from "./server.js";
import "./style.css";

const root = createRoot(document.getElementById("root"));

// The hook shows only what is streamed for this user, so the server says who it is.
call("/me").then(
  (me) => root.render(<StrictMode>{me.id ? <Page me={me} /> : <SignIn {...me} />}</StrictMode>),
  () => root.render(<p className="empty">The desk cannot be reached. Please reload the page.</p>),
);

function Page({ me }) {
  return (
    <AgentProvider
      userId={me.id}
      transport={transport}
      queryClient={new QueryClient()}
      debug={false}
    >
      <Suspense fallback={<p className="empty">Loading…</p>}>
        <Desk me={me} />
      </Suspense>
    </AgentProvider>
  );
}
