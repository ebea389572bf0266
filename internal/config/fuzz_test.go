package config

import (
	"errors"
	"strings"
	"testing"
)

// Whatever a variable holds, Parse returns a Config or a list of problems. Problems name variables and repeat no value,
// which may be a secret.
func FuzzParse(f *testing.F) {
	names := []string{
		"DATABASE_URL", "DATABASE_DIRECT_URL", "HTTP_ADDR", "CORS_ORIGINS", "PUBLIC_URL", "OAUTH_API_CLIENTS",
		"SUPABASE_URL", "SUPABASE_JWT_SECRET", "SUPABASE_SECRET_KEY",
		"OPENAI_API_KEY", "OPENAI_BASE_URL", "MODEL_VARIANTS", "MODEL_IDLE_TIMEOUT", "MEMORY_K_RAW_TURNS", "MEMORY_BRIDGE_TOKEN_BUDGET", "SUMMARY_PROMPT_MODE",
		"SUPABASE_ANON_KEY", "WEB_APP", "RIVER_UI", "RIVER_UI_USER", "RIVER_UI_PASSWORD", "LOG_LEVEL", "LOG_FORMAT", "WORKER_CONCURRENCY",
	}
	const mark = "s3cr3t-c4n4ry"
	for i, value := range []string{
		"", mark, "postgres://me:" + mark + "@host:5432/db?sslmode=" + mark, "postgres://%zz" + mark, "host=x password='" + mark, "127.0.0.1:" + mark,
		"https://me:" + mark + "@x", "http://\x7f" + mark,
		"a=b,c=" + mark + "@x", "1h" + mark, "-1", "99999999999999999999", "debug\x00" + mark, "true ", "*," + mark, ":0",
	} {
		for at := range names {
			f.Add(uint8(at), value, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, value string, dev bool) {
		name := names[int(at)%len(names)]
		_, err := Parse(environment{"DATABASE_URL": "postgres://localhost/x", "SUPABASE_JWT_SECRET": "x"}.with(name, value).lookup, dev)
		if err == nil {
			return
		}
		wrong, ok := errors.AsType[*Error](err)
		if !ok || len(wrong.Problems) == 0 || strings.Contains(err.Error(), mark) {
			t.Fatalf("%s=%q: %v", name, value, err)
		}
	})
}
