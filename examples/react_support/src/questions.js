// Questions to a person. The hook hands their events on and keeps none of them.

import { useCallback, useState } from "react";

const KEY = "support-desk-questions";

function remembered() {
  return JSON.parse(window.sessionStorage.getItem(KEY) ?? "[]");
}

export function useQuestions() {
  const [questions, setQuestions] = useState(remembered);

  const change = useCallback((next) => {
    setQuestions((before) => {
      const after = next(before);
      // A reload must not lose a question that is asked only once.
      window.sessionStorage.setItem(KEY, JSON.stringify(after));
      return after;
    });
  }, []);

  const drop = useCallback(
    (wanted) => change((before) => before.filter((question) => !wanted(question))),
    [change],
  );

  const onEvent = useCallback(
    ({ event, data }) => {
      if (event === "hitl.requested") {
        change((before) => [...before.filter((one) => one.requestId !== data.requestId), data]);
      } else if (event === "hitl.resolved") {
        drop((question) => question.requestId === data.requestId);
      } else if (event === "stream.ended") {
        drop((question) => question.threadId === data.threadId);
      }
    },
    [change, drop],
  );

  return { questions, onEvent, drop };
}
