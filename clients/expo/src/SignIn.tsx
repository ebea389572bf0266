import { useState } from 'react';
import { Text, TextInput, View } from 'react-native';

import type { Account, Credentials } from './account';
import { Button, Problem } from './parts';
import { useStyles } from './theme';

const FIELDS = {
  email: { placeholder: 'E-mail', keyboardType: 'email-address', autoComplete: 'email' },
  password: { placeholder: 'Password', secureTextEntry: true, autoComplete: 'current-password' },
  token: { placeholder: 'The token that make run prints' },
} as const;

export function SignIn({ account }: { account: Account }) {
  const styles = useStyles();
  const [typed, setTyped] = useState<Partial<Credentials>>({});
  const [error, setError] = useState<unknown>();
  const signIn = () => account.signIn(typed).catch(setError);
  return (
    <View style={styles.form}>
      <Text style={styles.title} accessibilityRole="header">Throughline</Text>
      {account.asks.map((name) => (
        <TextInput
          key={name}
          {...FIELDS[name]}
          accessibilityLabel={FIELDS[name].placeholder}
          autoCapitalize="none"
          autoCorrect={false}
          placeholderTextColor={styles.colors.faint}
          style={styles.field}
          value={typed[name] ?? ''}
          onChangeText={(text) => setTyped({ ...typed, [name]: text })}
          onSubmitEditing={signIn}
        />
      ))}
      <Problem error={error} />
      <Button label="Sign in" main onPress={signIn} />
    </View>
  );
}
