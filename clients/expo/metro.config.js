// The package is this repository's. An app that has installed it needs no such file.
const path = require('node:path');
const { getDefaultConfig } = require('expo/metro-config');

const ours = path.resolve(__dirname, '..');
const config = getDefaultConfig(__dirname);
config.watchFolders = [ours];
config.resolver.extraNodeModules = { '@arcoscribe/throughline': ours };
config.resolver.resolveRequest = (context, name, platform) => {
  const isReact = name === 'react' || name.startsWith('react/'); // there must be one alone: the app's
  const from = isReact ? { ...context, originModulePath: __filename } : context;
  return context.resolveRequest(from, name, platform);
};
module.exports = config;
