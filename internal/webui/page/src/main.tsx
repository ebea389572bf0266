import { render } from 'preact';
import { App } from './app';
import './ui/base.css';

render(<App />, document.getElementById('page')!);
