package auth

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// FuzzClaims signs any body with the project's secret. An accepted one names its user in one way only, and Postgres gets
// it as it was signed.
func FuzzClaims(f *testing.F) {
	good, err := json.Marshal(goodClaims(elsewhere))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add(`{"sub":"` + userID.String() + `","aud":["authenticated"],"role":"authenticated","iss":"` + elsewhere + `/auth/v1","exp":4e9,"role":"service_role"}`)
	opened := `{"sub":"` + userID.String() + `","aud":"authenticated","role":"authenticated","iss":"` + elsewhere + `/auth/v1","exp":4e9,`
	f.Add(opened + `"\u0073ub":"x","aal":"\u0000"}`)
	f.Add(opened + `"user_metadata":{"a":"\ud83d\ude00\ufffd\\u0000","b":"\ud83d"}}`)
	f.Add(`{"exp":-1e400}`)
	f.Add(`null`)
	f.Add("")
	c := &clock{}
	v := newVerifier(f, Config{ProjectURL: elsewhere, JWTSecret: secret, Now: c.now})
	f.Fuzz(func(t *testing.T, body string) {
		who, err := v.Verify(t.Context(), forge(t, `{"alg":"HS256"}`, body, secret))
		if err != nil {
			if _, ok := errors.AsType[*fault.Error](err); !ok || who != (Principal{}) {
				t.Fatalf("%v with %+v", err, who)
			}
			return
		}
		var seen map[string]any
		if err := json.Unmarshal([]byte(who.Claims), &seen); err != nil {
			t.Fatal(err)
		}
		if who.UserID == uuid.Nil || seen["sub"] != who.UserID.String() || seen["role"] != authenticated || who.Claims != body {
			t.Fatalf("%+v of %q", who, body)
		}
	})
}
