import { lazy, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { connect, sayError, SignedInContext, type SignedIn } from './api';
import { tellChange } from './changes';
import { loadConfig, type Config } from './config';
import { findSession, onSignedOutElsewhere, takeTokenFromAddress, type Session } from './session';
import { Palette } from './talk/palette';
import { Missing } from './ui/states';
import { focusHeading, Shell } from './ui/shell';
import { SignIn } from './ui/signin';

const Talk = lazy(() => import('./talk').then((area) => area.Talk));
const Remembers = lazy(() => import('./remembers').then((area) => area.Remembers));
const Topics = lazy(() => import('./memories').then((area) => area.Topics));
const Memories = lazy(() => import('./memories').then((area) => area.Memories));
const Graph = lazy(() => import('./memories').then((area) => area.Graph));
const Consent = lazy(() => import('./consent').then((area) => area.Consent));

export function App() {
  const [config, setConfig] = useState<Config>();
  const [signedIn, setSignedIn] = useState<SignedIn>();
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState('');
  const [why, setWhy] = useState('');

  /** The same user again goes on where they were; another one finds nothing of them. */
  function enter(config: Config, session: Session) {
    setOver(false);
    if (signedIn?.session.userId === session.userId) {
      signedIn.session = session;
      return tellChange(); // what failed meanwhile is read again
    }
    leave();
    setWhy('');
    const entered: SignedIn = connect(config, session, () => setOver(true), async (said) => {
      await signOut(entered);
      setWhy(said);
    });
    setSignedIn(entered);
  }

  function leave() {
    void signedIn?.outbox.then((box) => box.close());
    setSignedIn(undefined);
    setOver(false);
  }

  async function signOut(of = signedIn) {
    (await of?.outbox)?.close();
    await of?.session.signOut();
    leave();
  }

  async function start() {
    setProblem('');
    try {
      const loaded = await loadConfig();
      takeTokenFromAddress(loaded);
      const session = await findSession(loaded);
      if (session) enter(loaded, session);
      setConfig(loaded);
    } catch (error) {
      setProblem(sayError(error));
    }
  }
  useEffect(() => void start(), []);
  useEffect(() => signedIn && onSignedOutElsewhere(signedIn.session.userId, leave), [signedIn]);

  if (problem) return <Alone><p role="alert">{problem}</p><button type="button" onClick={start}>Try again</button></Alone>;
  if (!config) return null;
  const onSession = (session: Session) => enter(config, session);
  if (!signedIn) {
    return (
      <Alone>
        {why && <p role="status">{why}</p>}
        <p>Sign in to talk, and to see what is remembered.</p>
        <SignIn config={config} onSession={onSession} />
      </Alone>
    );
  }
  return (
    <SignedInContext.Provider value={signedIn} key={signedIn.session.userId}>
      <LocationProvider scope="/app">
        <Shell offline={config.offline_model} onSignOut={() => void signOut()}>
          <Router onRouteChange={focusHeading}>
            <Route path="/app/" component={Talk} />
            <Route path="/app/chats/:id" component={Talk} />
            <Route path="/app/chats/:id/memory" component={Remembers} />
            <Route path="/app/chats/:id/topics" component={Topics} />
            <Route path="/app/memories" component={Memories} />
            <Route path="/app/memories/graph" component={Graph} />
            <Route path="/app/oauth/consent" component={Consent} />
            <Route default component={Nowhere} />
          </Router>
        </Shell>
        <Palette />
      </LocationProvider>
      {over && <SessionOverDialog config={config} onSession={onSession} onLeave={() => void signOut()} />}
    </SignedInContext.Provider>
  );
}

function Alone({ children }: { children: preact.ComponentChildren }) {
  return <main class="alone"><h1>Throughline</h1>{children}</main>;
}

/** Asks to sign in again above the page, so that no typed text is lost. */
function SessionOverDialog({ onLeave, ...signIn }: { config: Config; onSession: (session: Session) => void; onLeave: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="over" onCancel={(event) => event.preventDefault()}>
      <h2 id="over">Your session has ended</h2>
      <p>Sign in again to go on. What you have written is still here.</p>
      <SignIn {...signIn} />
      <button type="button" class="quiet" onClick={onLeave}>Sign out and delete it</button>
    </dialog>
  );
}

function Nowhere() {
  const { path } = useLocation();
  return <main id="main" tabIndex={-1}><Missing title="Not found">There is nothing at {path}.</Missing></main>;
}
