import { AgentProvider } from "@inngest/use-agent";
import { QueryClient } from "@tanstack/react-query";
import { StrictMode, Suspense, useCallback, useState } from "react";
import { createRoot } from "react-dom/client";

import { Desk } from "./Desk.jsx";
import { SignIn } from "./SignIn.jsx";
import { call, storedThread, threadInAddress, transport } from "./server.js";
import "./style.css";

const root = createRoot(document.getElementById("root"));

// The hook shows only what is streamed for this user, so the server says who it is.
call("/me").then(
  (me) => root.render(<StrictMode>{me.id ? <Page me={me} /> : <SignIn {...me} />}</StrictMode>),
  () => root.render(<p className="empty">The desk cannot be reached. Please reload the page.</p>),
);

// The hook does not come back from a server that was away, e.g. for a deploy: a new one begins then.
function Page({ me }) {
  const [session, setSession] = useState(() => begin(0));
  const beginAgain = useCallback(() => setSession(({ number }) => begin(number + 1)), []);
  return (
    <AgentProvider
      key={session.number}
      userId={me.id}
      transport={transport}
      queryClient={session.queries}
      debug={false}
    >
      <Suspense fallback={<p className="empty">Loading…</p>}>
        <Desk me={me} session={session} onLost={beginAgain} />
      </Suspense>
    </AgentProvider>
  );
}

// The thread is read before the hook begins to listen: what is streamed afterwards goes on from it.
function begin(number) {
  const thread = threadInAddress();
  const stored = thread ? storedThread(thread).catch(() => null) : Promise.resolve(null);
  return { number, thread, stored, queries: new QueryClient() };
}
