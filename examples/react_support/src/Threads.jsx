import { signInAs } from "./SignIn.jsx";

export function Threads({ agent, me, isOpen, onNew, onOpen, onDelete }) {
  return (
    <nav id="conversations" aria-label="Conversations" data-open={isOpen || undefined}>
      <button type="button" className="new" onClick={onNew}>
        New conversation
      </button>
      <ul>
        {agent.threads.map((thread) => (
          <li key={thread.id}>
            <button
              type="button"
              className="thread"
              aria-current={thread.id === agent.currentThreadId ? "page" : undefined}
              onClick={() => onOpen(thread.id)}
            >
              {thread.title}
              {thread.hasNewMessages && <span className="news"> new</span>}
            </button>
            <button
              type="button"
              className="delete"
              aria-label={`Delete “${thread.title}”`}
              onClick={() => onDelete(thread.id)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {agent.threadsHasMore && (
        <button type="button" className="more" onClick={agent.loadMoreThreads}>
          Older conversations
        </button>
      )}
      <p className="who">
        {me.name}
        {me.staff && <a href="/staff/">Staff desk</a>}
        <button type="button" className="link" onClick={() => signInAs(null)}>
          Sign out
        </button>
      </p>
    </nav>
  );
}
