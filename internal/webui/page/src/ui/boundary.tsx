import { Component, type ComponentChildren } from 'preact';

/** Where its children cannot be drawn it shows something else, and all around it stays. It does not try them again. */
export class Boundary extends Component<{ instead: ComponentChildren; children: ComponentChildren }> {
  state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  render() {
    return this.state.failed ? this.props.instead : this.props.children;
  }
}
