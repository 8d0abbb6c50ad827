"""The slow twin of `rows`: plain float64, one row at a time; its gradient is torch's own."""

import torch


def row_stats(logits, targets, ids=None, temperature=1.0):
    """The seven statistics in float64, differentiable."""
    z = logits.double() / temperature
    listed = [()] * len(z) if ids is None else ids.tolist()
    rows = [one_row(*row) for row in zip(z, targets.tolist(), listed, strict=True)]
    width = 0 if ids is None else ids.shape[1]
    columns = [torch.stack([row[k] for row in rows]) if rows else z.new_zeros(0) for k in range(6)]
    return (*columns, torch.stack([row[6] for row in rows]) if rows else z.new_zeros(0, width))


def one_row(z, y, ids):
    """A row's statistics from the definitions; `ln(1 - p)` from the others alone."""
    others = torch.cat([z[:y], z[y + 1 :]])
    highest = z.max().detach()
    log_p = z - (highest + (z - highest).exp().sum().log())
    rest = torch.logsumexp(others, 0) if len(others) else z.new_tensor(-torch.inf)
    odds = rest - z[y]
    log_prob = -torch.logaddexp(odds, z.new_zeros(()))
    log_p = torch.cat([log_p[:y], log_prob[None], log_p[y + 1 :]])
    kept = log_p[log_p > -torch.inf]
    return (
        log_prob,
        -(kept.exp() * kept).sum(),
        z[y] - log_prob if z[y] > -torch.inf else rest,
        torch.logsumexp(2 * kept, 0),
        z.mean(),
        -torch.logaddexp(-odds, z.new_zeros(())),
        torch.stack([z.new_tensor(-torch.inf) if id < 0 else log_p[id] for id in ids]) if len(ids) else z.new_zeros(0),
    )
