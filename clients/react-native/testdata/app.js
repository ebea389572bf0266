/** The React Native recipe as an app, on the browser's own XMLHttpRequest. */
import { changeAppState } from 'react-native';

import * as recipe from '../throughline.js';
import { playInFrames } from '../../testdata/frames.js';
import { appOf } from '../../testdata/stage.js';

const phone = {
  background: () => changeAppState('background'),
  foreground: () => changeAppState('active'),
};

playInFrames((report, storage) => appOf({ recipe, report, storage, phone }));
