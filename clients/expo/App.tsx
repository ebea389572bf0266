import AsyncStorage from '@react-native-async-storage/async-storage';
import { createClient } from '@supabase/supabase-js';
import { randomUUID } from 'expo-crypto';
import { StatusBar } from 'expo-status-bar';
import { AppState, KeyboardAvoidingView, Platform } from 'react-native';
import { SafeAreaProvider, SafeAreaView } from 'react-native-safe-area-context';

import { supabaseAccount, tokenAccount } from './src/account';
import { Screen } from './src/Screen';
import { useStyles } from './src/theme';

// Expo takes these from the environment, or from a file .env.
const server = process.env.EXPO_PUBLIC_THROUGHLINE_URL ?? 'http://127.0.0.1:8080';
const supabaseUrl = process.env.EXPO_PUBLIC_SUPABASE_URL;
const supabaseKey = process.env.EXPO_PUBLIC_SUPABASE_KEY;
const serverTools = process.env.EXPO_PUBLIC_SERVER_TOOLS?.split(',') ?? [];

const device = { storage: AsyncStorage, appState: AppState, randomUUID };
const account =
  supabaseUrl && supabaseKey
    ? supabaseAccount(createClient(supabaseUrl, supabaseKey, { auth: { storage: AsyncStorage, detectSessionInUrl: false } }), server, device)
    : tokenAccount(server, device);

export default function App() {
  const styles = useStyles();
  return (
    <SafeAreaProvider>
      <StatusBar style="auto" />
      <SafeAreaView style={styles.screen}>
        <KeyboardAvoidingView style={styles.screen} behavior={Platform.OS === 'ios' ? 'padding' : undefined}>
          <Screen account={account} device={device} serverTools={serverTools} />
        </KeyboardAvoidingView>
      </SafeAreaView>
    </SafeAreaProvider>
  );
}
