package config

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// isSecret reports whether a key of a Supabase project lets its owner past row-level security.
func isSecret(key string) bool {
	if strings.HasPrefix(key, "sb_secret_") {
		return true
	}
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return false
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1]) // what is no key has no role
	var claims struct{ Role string }
	_ = json.Unmarshal(payload, &claims)
	return claims.Role != "" && claims.Role != "anon"
}
