/** The installed package, by require. */
const assert = require('node:assert/strict');

const { createClient, follow, newTurn } = require('@arcoscribe/throughline');
const { useChat } = require('@arcoscribe/throughline/react');
const { supabaseApi } = require('@arcoscribe/throughline/supabase');

assert.deepEqual([createClient, follow, newTurn, useChat, supabaseApi].map((name) => typeof name), Array(5).fill('function'));
const fetch = async () => new Response('<html>', { status: 502 });
const client = createClient({ baseUrl: 'http://throughline.test', accessToken: async () => 'token', fetch });
assert.rejects(client.GET('/v1/memories'), { name: 'ThroughlineError', status: 502, code: 'http_502' });
