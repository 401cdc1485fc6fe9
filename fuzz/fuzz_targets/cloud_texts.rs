#![no_main]

bluetick_fuzz::target!("cloud_texts");
