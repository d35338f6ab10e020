package must

import "testing"

func TestHold(t *testing.T) {
	t.Parallel()
	Hold(true, "true")
	defer func() {
		if got := recover(); got != "sluice: an assertion does not hold: false" {
			t.Errorf("panicked with %v", got)
		}
	}()
	Hold(false, "false")
}
