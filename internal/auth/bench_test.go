package auth

import "testing"

func BenchmarkVerify(b *testing.B) {
	p := newProject(b, ecJWK(b, "ec", ecKey()))
	for name, header := range map[string]string{
		"HS256": hs256(b, goodClaims(p.url)),
		"ES256": es256(b, "ec", ecKey(), goodClaims(p.url)),
	} {
		b.Run(name, func(b *testing.B) {
			v := p.verifier(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(b.Context(), header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
