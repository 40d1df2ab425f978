"""What other programs call our settings: who types one of these is told our name."""

from __future__ import annotations

WORDS = {  # in small letters, without _ and -
    "model.d_model": "width dim dmodel hidden hiddensize embeddim embeddingsize",
    "model.d_ff": "hidden ffndim",
    "model.encoder_layers": "layers numlayers nlayers depth",
    "model.decoder_layers": "layers numlayers nlayers depth",
    "model.n_heads": "heads numheads attentionheads",
    "model.max_length": "maxlen seqlen",
    "data": "dataset corpus",
    "data.path": "dataset corpus",
    "data.max_tokens": "bs batch batchsize tokensperbatch",
    "data.max_sentences": "bs batch batchsize",
    "data.num_workers": "workers",
    "data.processes": "workers",
    "tokenizer.vocab_size": "vocab vocabsize",
    "optim.lr": "learningrate stepsize",
    "optim.weight_decay": "wd",
    "optim.warmup_steps": "warmup warmupratio",
    "optim.schedule": "scheduler lrscheduler",
    "optim.label_smoothing": "smoothing",
    "optim.ema": "emadecay",
    "optim.beta1": "adambeta1",
    "optim.beta2": "adambeta2",
    "trainer.max_steps": "steps maxupdates",
    "trainer.max_steps=20epochs": "epochs numepochs maxepochs",
    "trainer.devices": "gpus ngpus",
    "trainer.accelerator": "device",
    "trainer.precision": "dtype",
    "trainer.precision=16-mixed": "fp16",
    "trainer.precision=bf16-mixed": "bf16",
    "trainer.precision=auto": "amp",
    "trainer.accumulate": "gradientaccumulation gradaccum updatefreq",
    "trainer.gradient_clip": "clip clipnorm gradclip maxgradnorm",
    "trainer.patience": "earlystopping",
    "trainer.val_every_n_steps": "evalevery evalsteps",
    "trainer.log_every_n_steps": "loggingsteps",
    "checkpoint.every_n_steps": "saveevery savesteps",
    "logger=wandb": "wandb",
    "logger=tensorboard": "tensorboard",
    "decode.beam": "beams beamsize numbeams",
    "decode.length_penalty": "lengthpenalty lenpen",
    "decode.top_k": "topk",
    "decode.top_p": "topp",
    "seed": "randomseed",
    "run_dir": "outputdir outdir savedir",
    "output": "outputdir outdir savedir",
    "resume": "continue",
    "init_from": "pretrained finetune",
    "bundle": "pretrained checkpoint modelpath",
    "precision": "dtype",
}


def synonyms(key: str) -> tuple[str, ...]:
    """Our names for what a key such as `optim.learning_rate` or `batch-size` means; may be none."""
    word = key.rpartition(".")[2].lower().replace("_", "").replace("-", "")
    return tuple(ours for ours, words in WORDS.items() if word in words.split())
