import { StyleSheet, useColorScheme } from 'react-native';

const light = { paper: '#fbfaf7', ink: '#22201c', faint: '#6b665c', line: '#e4e0d6', mine: '#e9efe4', accent: '#3f6b3a', onAccent: '#ffffff', bad: '#a3341f' };
const dark = { paper: '#191816', ink: '#ece8df', faint: '#a39c8e', line: '#35322c', mine: '#2a3327', accent: '#9cc794', onAccent: '#14210f', bad: '#f0917d' };

/** The styles of all screens, in the phone's colours. */
export function useStyles() {
  const colors = useColorScheme() === 'dark' ? dark : light;
  return colors === dark ? inDark : inLight;
}

function stylesIn(c: typeof light) {
  const styles = StyleSheet.create({
    screen: { flex: 1, backgroundColor: c.paper },
    bar: {
      flexDirection: 'row', alignItems: 'center', gap: 20, paddingHorizontal: 20, paddingVertical: 12,
      borderBottomWidth: StyleSheet.hairlineWidth, borderColor: c.line,
    },
    title: { flex: 1, fontSize: 17, fontWeight: '600', color: c.ink },
    list: { paddingHorizontal: 20, paddingVertical: 16, gap: 16 },
    reply: { fontSize: 16, lineHeight: 24, color: c.ink },
    mine: { alignSelf: 'flex-end', maxWidth: '85%', borderRadius: 16, paddingHorizontal: 14, paddingVertical: 9, backgroundColor: c.mine },
    faint: { fontSize: 13, lineHeight: 18, color: c.faint },
    bad: { fontSize: 14, lineHeight: 20, color: c.bad },
    action: { fontSize: 15, fontWeight: '500', color: c.accent, paddingVertical: 4 },
    composer: { flexDirection: 'row', alignItems: 'flex-end', gap: 12, padding: 12, borderTopWidth: StyleSheet.hairlineWidth, borderColor: c.line },
    input: {
      flex: 1, fontSize: 16, lineHeight: 22, maxHeight: 132, color: c.ink,
      borderWidth: 1, borderColor: c.line, borderRadius: 20, paddingHorizontal: 16, paddingVertical: 9,
    },
    field: { fontSize: 16, color: c.ink, borderWidth: 1, borderColor: c.line, borderRadius: 12, paddingHorizontal: 16, paddingVertical: 12 },
    button: { borderRadius: 20, paddingHorizontal: 18, paddingVertical: 11, backgroundColor: c.accent },
    onButton: { fontSize: 15, fontWeight: '600', textAlign: 'center', color: c.onAccent },
    form: { flex: 1, justifyContent: 'center', gap: 14, padding: 28 },
    row: { gap: 4, paddingBottom: 16, borderBottomWidth: StyleSheet.hairlineWidth, borderColor: c.line },
    card: { gap: 4, borderRadius: 12, padding: 14, marginTop: 8, borderWidth: 1, borderColor: c.line },
    choices: { flexDirection: 'row', alignItems: 'center', gap: 20 },
    empty: { fontSize: 15, lineHeight: 22, textAlign: 'center', color: c.faint, padding: 32 },
  });
  return { ...styles, colors: c };
}

const inLight = stylesIn(light);
const inDark = stylesIn(dark);
