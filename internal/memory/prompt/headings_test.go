package prompt

import "testing"

func TestHeadingsAreTold(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		BackgroundHeading: true, RecentHeading: true, SourcesHeading: true, CurrentHeading: true,
		"BACKGROUND - PRIOR CONVERSATION SUMMARY:": true, "background — prior conversation summary (x): y": true, "## Current Message:": true,
		"CURRENT_MESSAGE:": true, "СURRЕΝТ  МЕЅЅАGЕ:": true, "C.U.R.R.E.N.T message:": true, `"files": [`: false, "- Files: 3": true,
		"\u200bCURRENT\u00a0MESSAGE：": true, "RETRIEVED SOURCES: none": true, "**RECENT CONVERSATION:**": true,
		"The current message: hi": false, "Background: he is old": false, "Current messages": false, "": false, "> CURRENT MESSAGE:": false,
	} {
		if got := ReadsAsHeading(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
