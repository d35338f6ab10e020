package algo

import "testing"

func TestFit(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600 * 1e6
	for _, tt := range []struct {
		name  string
		limit Limit
		want  int64 // the burst
	}{
		{name: "fits", limit: Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Burst: 20}, want: 20},
		{name: "no burst", limit: Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6}, want: 0},
		{name: "no units", limit: Limit{Algorithm: GCRA, WindowMicros: MaxWindowMicros, Burst: MaxUnits}, want: MaxUnits},
		{name: "another algorithm", limit: Limit{Algorithm: FixedWindow, Units: 1, WindowMicros: MaxWindowMicros}, want: 0},
		{
			name: "does not fit", limit: Limit{Algorithm: TokenBucket, Units: 1, WindowMicros: day, Burst: MaxUnits},
			want: int64(MaxRestoreMicros) / day,
		},
		{
			name: "the longest window", limit: Limit{Algorithm: GCRA, Units: 1, WindowMicros: MaxWindowMicros, Burst: MaxUnits},
			want: int64(MaxRestoreMicros) / MaxWindowMicros,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := tt.limit
			l.Fit()
			if l.Burst != tt.want {
				t.Errorf("the burst is %d, want %d", l.Burst, tt.want)
			}
			if !l.sizeIsValid() {
				t.Error("the size is not valid")
			}
		})
	}
}
