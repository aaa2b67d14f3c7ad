import { Avatar } from "./Messages.jsx";
import { call } from "./server.js";

export async function signInAs(id) {
  await call("/sign-in", { id });
  window.location.assign("/");
}

export function SignIn({ people }) {
  return (
    <main className="sign-in">
      <h1>Lamps &amp; Light</h1>
      <p>Who are you? (A desk to try out: nobody needs a password.)</p>
      <ul>
        {people.map(({ id, name, staff }) => (
          <li key={id}>
            <button type="button" className="quiet" onClick={() => signInAs(id)}>
              <Avatar name={name} staff={staff} />
              <span>
                {name} <small>{staff ? "Staff" : "Customer"}</small>
              </span>
            </button>
          </li>
        ))}
      </ul>
    </main>
  );
}
