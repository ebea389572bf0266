import { Pressable, Text } from 'react-native';

import { useStyles } from './theme';

interface Props {
  label: string;
  onPress: () => void;
  /** The one that the screen is for. */
  main?: boolean;
}

export function Button({ label, onPress, main }: Props) {
  const styles = useStyles();
  return (
    <Pressable accessibilityRole="button" hitSlop={8} style={main && styles.button} onPress={onPress}>
      <Text style={main ? styles.onButton : styles.action}>{label}</Text>
    </Pressable>
  );
}

/** Something that went wrong, in the words of whoever said it. */
export function Problem({ error }: { error: unknown }) {
  const styles = useStyles();
  if (!error) return null;
  return <Text style={styles.bad} accessibilityRole="alert">{error instanceof Error ? error.message : String(error)}</Text>;
}
