package config

import (
	"os"
	"strings"
	"testing"
)

func TestMisspeltSettingsAreNamed(t *testing.T) {
	for name, want := range map[string]string{
		"MEMORY_K_RAW_TURN":     "is MEMORY_K_RAW_TURNS meant?",
		"memory_k_raw_turns":    "is MEMORY_K_RAW_TURNS meant?",
		"MEMORY_SUMMARY_CAP":    "is MEMORY_SUMMARY_TOKEN_CAP meant?",
		"MEMORY_SIZE":           ".env.example lists them",
		"OPENAI_KEY":            "is OPENAI_API_KEY meant?",
		"OPENAI_APIKEY":         "is OPENAI_API_KEY meant?",
		"OPENAI_URL":            "is OPENAI_BASE_URL meant?",
		"SUPABASE_SERVICE_KEY":  "is SUPABASE_SERVICE_ROLE_KEY meant?",
		"SUPABASE_JWT":          "is SUPABASE_JWT_SECRET meant?",
		"SUPBASE_URL":           "is SUPABASE_URL meant?",
		"DATABASE_URI":          "is DATABASE_URL meant?",
		"HTTP_ADRR":             "is HTTP_ADDR meant?",
		"RIVER_UI_PASS":         ".env.example lists them",
		"RIVER_PASSWORD":        "is RIVER_UI_PASSWORD meant?",
		"THROUGHLINE_LOG_LEVEL": ".env.example lists them",
		"CHAT_TTL":              "is CHAT_TTL_HOURS meant?",
		"LOG_LEVELL":            "is LOG_LEVEL meant?",
		// What belongs to others, or is a variable of ours.
		"HTTP_PROXY": "", "http_proxy": "", "HOSTNAME": "", "PATH": "", "LOG_FILE": "", "MODEL_NAME": "", "DATABASE_NAME": "", "PGPASSWORD": "",
		"SUPABASE_PUBLISHABLE_KEY": "", "SUPABASE_DB_URL": "", "SUPABASE_ACCESS_TOKEN": "", "SUPABASE_PROJECT_REF": "",
		"OPENAI_ORG_ID": "", "OPENAI_PROJECT_ID": "", "THROUGHLINE_PG_BIN": "", "THROUGHLINE_URL": "", "CORS_ORIGINS": "",
	} {
		t.Run(name, func(t *testing.T) {
			enter(t, "")
			t.Setenv(name, "http://hunter2.example")
			c, err := Load(false)
			if err != nil && strings.Contains(err.Error(), "hunter2") || err == nil && want == "" && len(c.Warnings) > 0 {
				t.Errorf("%v, %q", err, c.Warnings)
			}
			if want != "" && (len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], name+" ") || !strings.Contains(c.Warnings[0], want) || strings.Contains(c.Warnings[0], "hunter2")) {
				t.Errorf("%q", c.Warnings)
			}
		})
	}
}

//nolint:paralleltest // the environment and the current directory belong to the process
func TestMisspeltSettingInTheFileIsNamed(t *testing.T) {
	enter(t, "# MEMORY_K=3\nMEMORY_K_RAW=3\nMEMORY_RAW=\n")
	t.Cleanup(func() { _ = os.Unsetenv("MEMORY_K_RAW"); _ = os.Unsetenv("MEMORY_RAW") })
	c, err := Load(false)
	if err != nil || len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], "MEMORY_K_RAW ") {
		t.Errorf("%q, %v", c.Warnings, err)
	}
}

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
		{environment{"RECALL": "off", "RECALL_TOKENS": "7"}, "RECALL_TOKENS "},
		{environment{"RECALL": "off", "RECALL_DEADLINE": "1s"}, "RECALL_DEADLINE "},
		{environment{"RECALL": "off", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: RECALL"},
		{environment{"EMBEDDING_MODEL": "none", "EMBEDDING_BASE_URL": "https://a.example"}, "EMBEDDING_BASE_URL has no effect: EMBEDDING_MODEL"},
		{environment{"EMBEDDING_MODEL": "none", "EMBEDDING_DIMENSIONS": "7"}, "EMBEDDING_DIMENSIONS "},
		{environment{"RECALL": "off", "LONG_TERM_MEMORY": "true", "EMBEDDING_MODEL": "m"}, ""},
		{environment{"LONG_TERM_MEMORY": "false", "MEMORY_TOP": "7"}, "MEMORY_TOP "},
		{environment{"LONG_TERM_MEMORY": "false", "MEMORY_TOP": "5", "MEMORY_EXTRACTION_MODEL": "m"}, "MEMORY_EXTRACTION_MODEL "},
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
