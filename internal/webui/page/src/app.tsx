import { lazy, LocationProvider, Route, Router, useLocation } from 'preact-iso';
import { useEffect, useState } from 'preact/hooks';
import { connect, sayError, type SignedIn, SignedInContext } from './api';
import { loadConfig, type Config } from './config';
import { findSession, takeTokenFromAddress, type Session } from './session';
import { SignIn } from './ui/signin';
import { Shell } from './ui/shell';

const Talk = lazy(() => import('./talk').then((area) => area.Talk));
const Remembers = lazy(() => import('./remembers').then((area) => area.Remembers));
const Topics = lazy(() => import('./memories').then((area) => area.Topics));
const Memories = lazy(() => import('./memories').then((area) => area.Memories));
const Graph = lazy(() => import('./memories').then((area) => area.Graph));
const Consent = lazy(() => import('./consent').then((area) => area.Consent));

export function App() {
  const [config, setConfig] = useState<Config>();
  const [signedIn, setSignedIn] = useState<SignedIn>();
  const [problem, setProblem] = useState('');

  const enter = (session: Session | undefined) => setSignedIn(session && connect(session));

  async function start() {
    try {
      const loaded = await loadConfig();
      takeTokenFromAddress();
      enter(await findSession(loaded));
      setConfig(loaded);
    } catch (error) {
      setProblem(sayError(error));
    }
  }
  useEffect(() => void start(), []);

  if (problem) return <main class="alone"><p role="alert">{problem}</p></main>;
  if (!config) return null;
  if (!signedIn) return <SignIn config={config} onSession={enter} />;
  return (
    <SignedInContext.Provider value={signedIn}>
      <LocationProvider scope="/app">
        <Shell onSignOut={() => enter(undefined)}>
          <Router>
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
      </LocationProvider>
    </SignedInContext.Provider>
  );
}

function Nowhere() {
  const { path } = useLocation();
  return <main id="main" tabIndex={-1}><h1>Not found</h1><p>There is nothing at {path}. <a href="/app/">Go to your chats.</a></p></main>;
}
