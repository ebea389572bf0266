package config

import (
	"strings"
	"testing"
)

// A setting that another one makes void is not ignored in silence.
func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set  environment
		want string
	}{
		{environment{"SUPABASE_URL": "https://a.example", "SUPABASE_SECRET_KEY": "new", "SUPABASE_SERVICE_ROLE_KEY": "old"}, "SUPABASE_SERVICE_ROLE_KEY "},
		{environment{"SUPABASE_URL": "https://a.example", "SUPABASE_SECRET_KEY": "same", "SUPABASE_SERVICE_ROLE_KEY": "same"}, ""},
		{environment{"SUPABASE_SECRET_KEY": "new"}, "SUPABASE_SECRET_KEY "},
		{environment{"RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}, "RIVER_UI_USER "},
		{environment{"RIVER_UI": "true", "RIVER_UI_USER": "u", "RIVER_UI_PASSWORD": "p"}, ""},
		{environment{"SUMMARY_PROMPT_MODE": "inline", "PROMPT_VERSION_SUMMARY_GLOBAL": "3"}, "PROMPT_VERSION_SUMMARY_GLOBAL "},
		{environment{"MODEL_TIMEOUT": "30s"}, "MODEL_IDLE_TIMEOUT "},
		{environment{"RECALL": "off", "EMBEDDING_MODEL": "m"}, "EMBEDDING_MODEL has no effect: RECALL"},
		{environment{"RECALL": "off", "EMBEDDING_MODEL": "none"}, ""},
		{environment{"RECALL": "off", "RECALL_DEADLINE": "1s"}, "RECALL_DEADLINE "},
		{environment{"RECALL": "off", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: RECALL"},
		{environment{"EMBEDDING_MODEL": "none", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: EMBEDDING_MODEL"},
		{environment{"RECALL": "off", "LONG_TERM_MEMORY": "true", "EMBEDDING_MODEL": "m"}, ""},
		{environment{"TOPICS": "off", "TOPIC_MAX": "7"}, "TOPIC_MAX has no effect: TOPICS"},
		{environment{"TOPICS": "off", "TOPIC_MAX": "20"}, ""},
		{environment{"RECALL": "off", "TOPICS": "on"}, "TOPICS has no effect: RECALL"},
		{environment{"RECALL": "off", "TOPICS": "off"}, ""},
		{environment{}, ""},
	} {
		if c.set["RECALL"] == "off" && c.set["LONG_TERM_MEMORY"] == "" {
			c.set["LONG_TERM_MEMORY"] = "false" // memories have vectors without recall
		}
		warnings := parse(t, c.set, false).Warnings
		if c.want == "" && len(warnings) > 0 || c.want != "" && (len(warnings) != 1 || !strings.HasPrefix(warnings[0], c.want)) {
			t.Errorf("%v: %q", c.set, warnings)
		}
	}
}
