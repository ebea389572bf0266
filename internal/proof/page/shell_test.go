package page

import "testing"

// TestEveryRoute opens each route in both themes, on a phone and on a desktop, signed in by the link that dev prints.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	newRig(t, nil, nil).inBrowser("routes.mjs", nil)
}

// TestPictures holds that the pictures of docs/page.md can be taken; SCREENSHOTS=folder keeps them.
func TestPictures(t *testing.T) {
	t.Parallel()
	newRig(t, (&stage{}).play, nil).inBrowser("pictures.mjs", nil)
}
