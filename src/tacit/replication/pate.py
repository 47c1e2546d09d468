"""Scalable Private Learning with PATE, 2018: its items in its own order."""

from __future__ import annotations

from tacit.replication import pate_glyph as glyph
from tacit.replication import pate_students as students
from tacit.replication import pate_tables as tables
from tacit.replication import pate_votes as votes
from tacit.replication.items import Item

_MNIST = (votes.VOTES, *votes.MNIST)
_ADULT = ("adult/adult.data.gz", "adult/adult.test.gz")

_TEXT = (
    Item(
        "figure-1",
        "Figure 1: Confident-GNMax against LNMax: accuracy, epsilon, consensus",
        "differs",
        "On MNIST the student is not better (behind at 50 and 100 answers, equal from 200 on); "
        "epsilon falls to three fifths, not to a quarter (Glyph is not to be had).",
        students.figure_1,
        _MNIST,
        1.0,
    ),
    Item(
        "figure-2",
        "Figure 2: teachers, aggregation, student",
        "reproduced",
        "It is the house itself: teachers, a mechanism, a ledger, a student.",
    ),
    Item("theorem-4", "Theorem 4: composition", "reproduced", "RDP curves add."),
    Item(
        "theorem-5",
        "Theorem 5: from RDP to (epsilon, delta)",
        "improved",
        "The improved conversion is never larger, and 0.277 smaller at order 14 and delta 1e-5.",
    ),
    Item(
        "advanced-composition",
        "Section 4.1: advanced composition would give 8.42 and 10.14",
        "differs",
        "Advanced composition gives above 70; 10.10 is the worst case of the Confident run by "
        "Theorems 4 and 5, and 8.42 comes from none of the printed parameters.",
        votes.advanced_composition,
    ),
    Item(
        "theorem-6",
        "Theorem 6 (informal): a data-dependent bound from two higher orders",
        "improved",
        "The tight bound is the supremum of what such a bound may be, never above Theorem 6.",
    ),
    Item(
        "proposition-7",
        "Proposition 7: the probability of another answer",
        "reproduced",
        "Checked against exact probabilities for every small histogram; cut at 1 - 1/m.",
    ),
    Item(
        "algorithm-1",
        "Algorithm 1: Confident-GNMax",
        "improved",
        "As printed; the check is priced by its exact worst case, 0.637 of the paper's price.",
    ),
    Item(
        "parameters",
        "Sections 4.2, 5.3 and 5.4: rules for T, the checks, the rounds",
        "differs",
        "Ours are for a worst case that is known before the run, the paper's for the expected cost "
        "on these votes, searched on them.",
        votes.parameters,
        _MNIST,
    ),
    Item(
        "algorithm-2",
        "Algorithm 2: Interactive-GNMax",
        "reproduced",
        "As printed, the strict comparison with gamma included; the statistic is rounded half up.",
    ),
    Item(
        "figure-3",
        "Figure 3: examples of Glyph",
        "differs",
        "Glyph was never published; a stand-in is rendered from the fonts that matplotlib finds.",
        glyph.figure_3,
    ),
    Item(
        "four-sigma",
        "Section 5.2: a gap of 4 sigma gives q of e^-16",
        "refuted",
        "By Proposition 7 and by drawing it is 2.3e-3: the difference of two Gaussians has twice "
        "the variance, and the exponent a half.",
        votes.gap_of_four_sigma,
    ),
    Item(
        "figure-4",
        "Figure 4, left: Laplace against Gaussian noise, accuracy of labels against epsilon",
        "improved",
        "Gaussian noise is ahead by the papers' bounds as by the tight ones, which ask for a third "
        "less; Glyph is not to be had, the published MNIST votes stand in.",
        votes.figure_4,
        _MNIST,
    ),
    Item(
        "figure-4-teachers",
        "Figure 4, right: larger ensembles",
        "reproduced",
        "The least epsilon falls from 1.66 to 0.18 (tight) from 100 to 2,000 teachers; the labels "
        "that they can give fall from 99 to 95 % right.",
        students.figure_4_teachers,
        votes.MNIST,
        0.5,
    ),
    Item(
        "table-1",
        "Table 1: Confident-GNMax on MNIST and Adult",
        "improved",
        "MNIST's 286 answers and 1.97 come out, Adult's 524 and 1.90 do not (539 and 1.68); the "
        "tight bound says 1.14 and 1.03 of the same runs.",
        tables.table_1,
        tables.FILES,
    ),
    Item(
        "table-1-lnmax",
        "Table 1: LNMax on MNIST and Adult",
        "differs",
        "2.04 and 8.03 are what the script of 2017 says for Laplace noise of scale 10 at eight "
        "moments; the labels have scale 20, which costs 1.96 and 7.40.",
        votes.lnmax_rows,
        (votes.VOTES, votes.ADULT_VOTES, votes.ASKED, votes.LABELS),
    ),
    Item(
        "adult-forests",
        "Section 5.3: forests teach a forest on Adult",
        "reproduced",
        "LNMax's row comes out (2.68, 83.0 %); Confident-GNMax's student has 82.7 %, printed 83.7.",
        students.adult_forests,
        _ADULT,
        0.5,
    ),
    Item(
        "vat-student",
        "Section 5.3: virtual adversarial training as the student",
        "reproduced",
        "98.7 % on the papers' split with features, where the paper's GAN had 98.5 %; label "
        "spreading does as well in seconds, VAT on the images themselves worse.",
        students.vat_student,
        _MNIST,
        7.0,
    ),
    Item(
        "gan-student",
        "Section 5.3: GANs as students of MNIST and SVHN",
        "not to be had",
        "No GAN is built: students of seconds reach what the paper's GAN did, and the paper itself "
        "found VAT better where there are many classes.",
    ),
    Item(
        "interactive",
        "Section 5.3: Confident, then Interactive",
        "differs",
        "On MNIST two rounds ask the teachers for 333 answers in place of 572 and cost a sixth "
        "less, where Glyph's cost three fifths less; the student is as good.",
        students.interactive,
        _MNIST,
        0.5,
    ),
    Item(
        "uncurated",
        "Sections 5.1 to 5.3: an uncurated task of 150 classes",
        "differs",
        "On the stand-in epsilon falls as printed (1.95, 1.15, 0.87; paper 4.3, 2.03, 0.84), and "
        "labels of Confident-GNMax are the best; the student gains nothing by it.",
        glyph.uncurated,
        (),
        6.0,
    ),
    Item(
        "figure-5",
        "Figure 5: what the noisy checks leave, and what they cost",
        "differs",
        "The histogram is the paper's in shape; with 250 teachers checks of its shares cost more "
        "than they save, Table 1's gentler one breaks even.",
        votes.figure_5,
        (votes.VOTES,),
    ),
    Item(
        "synergy",
        "Section 6: labels of small cost are more likely right",
        "reproduced",
        "From 50 % right at .0087 to 99.9 % right at .0003, monotone in between.",
        votes.synergy,
        _MNIST,
    ),
    Item(
        "private-labels",
        "Section 6: private labels beat non-private ones of equal number",
        "differs",
        "Against noiseless pluralities a VAT student has 98.9 for 98.6 %, a label-spreading "
        "one more at 100 labels, not at 50 or 250; true labels are better throughout.",
        students.private_labels,
        _MNIST,
        2.5,
    ),
)

_APPENDIX_A = (
    Item(
        "proposition-8",
        "Proposition 8: GNMax is (a, a/sigma^2)-RDP",
        "reproduced",
        "It is the Gaussian of sensitivity sqrt(2); compositions are priced exactly by mu^2.",
    ),
    Item(
        "theorem-6-precise",
        "Theorem 6, precisely",
        "refuted",
        "Its conditions admit a negative divergence; with q e^(eps_2) < 1 beside them it holds.",
    ),
    Item("lemma-9", "Lemma 9: the bound grows with q", "reproduced", "Checked on random inputs."),
    Item(
        "proposition-10",
        "Proposition 10: the best mu_1 and mu_2",
        "reproduced",
        "They are what `theorem6` uses; the collapsed formula equals the printed one.",
    ),
    Item(
        "corollary-11",
        "Corollary 11: two large gaps",
        "improved",
        "It holds, three to sixteen times above Theorem 6 and the tight bound at its own order.",
        votes.corollary_11,
    ),
)

_APPENDIX_B = (
    Item(
        "algorithm-3",
        "Algorithm 3: local sensitivity",
        "improved",
        'As `algorithm="paper"`; where condition C6 fails it refuses.',
    ),
    Item(
        "algorithm-4",
        "Algorithm 4: sensitivity at a distance",
        "refuted",
        "One sum has the wrong end, one crossing is not tested; corrected, and refused where its "
        "condition C6 fails.",
    ),
    Item(
        "algorithm-5",
        "Algorithm 5: smooth sensitivity",
        "improved",
        "Windows over the exact reach need no condition and serve the tight bound.",
    ),
    Item(
        "conditions",
        "Appendix B: conditions C1 to C8",
        "differs",
        "C6 fails from about order sigma on, and is tested; the window algorithm needs monotony "
        "alone.",
    ),
    Item(
        "proposition-13",
        "Proposition 13: Algorithm 3 bounds the local sensitivity",
        "reproduced",
        "True under its conditions; below the local sensitivity where C6 fails.",
    ),
    Item(
        "proposition-14",
        "Proposition 14: growth of the local sensitivity",
        "reproduced",
        "True; its proof says non-decreasing once where it is non-increasing.",
    ),
    Item(
        "proposition-16",
        "Proposition 16, Lemmas 17 and 18: q falls along the dominance order",
        "reproduced",
        "Not needed here: reach is proved by convexity. Lemma 18's inequality is reversed.",
    ),
    Item(
        "proposition-19",
        "Proposition 19: the extreme q at a distance",
        "reproduced",
        "Proved anew, and checked against every histogram of small ensembles.",
    ),
    Item(
        "theorem-20",
        "Theorem 20: Algorithms 4 and 5 are correct",
        "refuted",
        "Not where C6 fails, roughly from order sigma on: then not smooth, with an example.",
    ),
    Item(
        "proposition-21",
        "Proposition 21: how far one teacher moves q",
        "reproduced",
        "Proved anew, and checked against every neighbour of small histograms.",
    ),
    Item(
        "theorem-23",
        "Theorem 23: the cost of GNSS",
        "refuted",
        "Two Gaussians cost 1.607 where it says 0.518, at the MNIST row's own parameters.",
    ),
    Item(
        "theorem-24",
        "Theorem 24: smooth sensitivity of a sum",
        "reproduced",
        "Windows within a distance, summed over queries; the public code takes them at a distance.",
    ),
    Item(
        "table-2",
        "Table 2: sanitised epsilons",
        "refuted",
        "Its digits come out for MNIST and Adult, but by Theorem 23 and with parameters that were "
        "chosen on the votes; what may be published stands beside them.",
        tables.table_2,
        tables.FILES,
    ),
    Item(
        "sanitised-interactive",
        "Table 2: a sanitised Interactive run",
        "not to be had",
        "An Interactive label does not tell whether teachers gave it, and the sanitised cost is a "
        "sum over a public set of answers: its worst case is published.",
    ),
    Item(
        "sanitising-rules",
        "Appendix B: rules of thumb for order, beta and sigma_SS",
        "differs",
        "beta = 0.4/order is where Theorem 23 fails; ours is 0.2/order, sigma 6, sigma_log 5 beta.",
    ),
)

ITEMS = (*_TEXT, *_APPENDIX_A, *_APPENDIX_B)
"""In the paper's own order."""
